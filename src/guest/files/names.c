/* names — stat, mkdir, rename, and how a file is told. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/params.h"
#include "guest/path.h"

static int info_of(struct work *w, const char *path, int fd, struct err *e) {
    struct stat st;
    if (fd < 0)
        return path_error(e, -fd, "look at", path);
    if (fstat(fd, &st) < 0)
        return path_error(e, errno, "look at", path);
    struct user_names names;
    user_names_load(&names); /* the child ends soon: nothing to free */
    json_key(w->out, "info");
    info_write(w->out, path, &st, fd, "", &names);
    return 0;
}

static int info_put(struct work *w, const char *path, bool follow, struct err *e) {
    AUTO_CLOSE int fd = path_open(path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
    return info_of(w, path, fd, e);
}

/* In the directory where it was made: by now its path may lead elsewhere. */
static int info_put_in(struct work *w, const char *path, int dir, const char *name, struct err *e) {
    AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return info_of(w, path, fd < 0 ? -errno : fd, e);
}

static int work_path(struct work *w, const char *name, char **ret, struct err *e) {
    if (path_param(w->params, name, w->workspace, w->arena, ret, e) < 0)
        return -(int)e->code;
    path_clean(*ret);
    return 0;
}

static int work_stat(struct work *w, struct err *e) {
    char *path;
    bool follow = false;
    if (work_path(w, "path", &path, e) < 0 || params_bool(w->params, "follow", &follow, e) < 0)
        return -(int)e->code;
    return info_put(w, path, follow, e);
}

/* The directory of a path, made if asked. */
static int open_dir_of(struct work *w, char *path, bool make_parents, const char **ret_name,
                       struct err *e) {
    int r = make_parents ? path_make_parents(path, w->arena) : 0;
    if (r == 0)
        r = path_open_parent(path, ret_name);
    return r < 0 ? path_error(e, -r, "open the directory of", path) : r;
}

static int work_mkdir(struct work *w, struct err *e) {
    char *path;
    const char *name;
    int64_t mode = 0755;
    bool make_parents = false;
    if (work_path(w, "path", &path, e) < 0 ||
        params_int(w->params, "mode", 0, 0777, &mode, e) < 0 ||
        params_bool(w->params, "make_parents", &make_parents, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int there = path_open(path, O_PATH | O_DIRECTORY, 0);
    json_put_bool(w->out, "created", there < 0);
    if (there >= 0)
        return info_of(w, path, there, e);
    AUTO_CLOSE int dir = open_dir_of(w, path, make_parents, &name, e);
    if (dir < 0)
        return dir;
    if (mkdirat(dir, name, (mode_t)mode) < 0)
        return path_error(e, errno, "make", path);
    return info_put_in(w, path, dir, name, e);
}

static int work_rename(struct work *w, struct err *e) {
    char *from, *to;
    const char *from_name, *to_name;
    bool replace = false, make_parents = false;
    if (work_path(w, "path", &from, e) < 0 || work_path(w, "new_path", &to, e) < 0 ||
        params_bool(w->params, "replace", &replace, e) < 0 ||
        params_bool(w->params, "make_parents", &make_parents, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int from_dir = open_dir_of(w, from, false, &from_name, e);
    if (from_dir < 0)
        return from_dir;
    AUTO_CLOSE int to_dir = open_dir_of(w, to, make_parents, &to_name, e);
    if (to_dir < 0)
        return to_dir;
    int r = path_rename(from_dir, from_name, to_dir, to_name, replace);
    if (r < 0)
        return path_error(e, -r, "rename", from);
    return info_put_in(w, to, to_dir, to_name, e);
}

static int work_sync(struct work *w, struct err *e) {
    (void)w;
    (void)e;
    sync();
    return 0;
}

int files_method_stat(struct request *r, struct err *e) {
    return jobs_start(r, work_stat, jobs_answer, NULL, e);
}

int files_method_mkdir(struct request *r, struct err *e) {
    return jobs_start(r, work_mkdir, jobs_answer, NULL, e);
}

int files_method_rename(struct request *r, struct err *e) {
    return jobs_start(r, work_rename, jobs_answer, NULL, e);
}

int files_method_list(struct request *r, struct err *e) {
    return jobs_start(r, work_list, jobs_answer, NULL, e);
}

int files_method_remove(struct request *r, struct err *e) {
    return jobs_start(r, work_remove, jobs_answer, NULL, e);
}

int files_method_sync(struct request *r, struct err *e) {
    return jobs_start(r, work_sync, jobs_answer, NULL, e);
}
