/* names — the requests stat, mkdir and rename. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/params.h"
#include "guest/path.h"

/* Describes the file that `fd` refers to; a negative fd is the -errno of opening it. */
static int names_put_info(struct work *w, const char *path, int fd, struct err *e) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return path_error(e, fd < 0 ? -fd : errno, "stat", path);
    info_put(w->out, path, &st, fd);
    return 0;
}

/* Describes a file by its directory, because by now its path may lead elsewhere. */
static int names_put_info_at(struct work *w, const char *path, int dir, const char *name,
                             struct err *e) {
    AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return names_put_info(w, path, fd < 0 ? -errno : fd, e);
}

static int names_work_stat(struct work *w, struct err *e) {
    char *path;
    bool follow = false;
    if (work_path(w, "path", &path, e) < 0 || params_bool(w->params, "follow", &follow, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int fd = path_open(path, O_PATH | (follow ? 0 : O_NOFOLLOW), 0);
    return names_put_info(w, path, fd, e);
}

/* Opens the directory that contains the last name of a path, and makes it when asked to. */
static int names_open_parent(struct work *w, char *path, bool make_parents, const char **ret_name,
                             struct err *e) {
    int r = make_parents ? path_make_parents(path, w->arena) : 0;
    if (r == 0)
        r = path_open_parent(path, ret_name);
    return r < 0 ? path_error(e, -r, "open the parent of", path) : r;
}

static int names_work_mkdir(struct work *w, struct err *e) {
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
        return names_put_info(w, path, there, e);
    AUTO_CLOSE int dir = names_open_parent(w, path, make_parents, &name, e);
    if (dir < 0)
        return dir;
    if (mkdirat(dir, name, (mode_t)mode) < 0)
        return path_error(e, errno, "mkdir", path);
    return names_put_info_at(w, path, dir, name, e);
}

static int names_work_rename(struct work *w, struct err *e) {
    char *from, *to;
    const char *from_name, *to_name;
    bool replace = false, make_parents = false;
    if (work_path(w, "path", &from, e) < 0 || work_path(w, "new_path", &to, e) < 0 ||
        params_bool(w->params, "replace", &replace, e) < 0 ||
        params_bool(w->params, "make_parents", &make_parents, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int from_dir = names_open_parent(w, from, false, &from_name, e);
    if (from_dir < 0)
        return from_dir;
    AUTO_CLOSE int to_dir = names_open_parent(w, to, make_parents, &to_name, e);
    if (to_dir < 0)
        return to_dir;
    int r = path_rename(from_dir, from_name, to_dir, to_name, replace);
    if (r < 0)
        return path_error(e, -r, "rename", from);
    return names_put_info_at(w, to, to_dir, to_name, e);
}

int names_method_stat(struct request *r, struct err *e) {
    return jobs_start(r, names_work_stat, jobs_reply, NULL, e);
}

int names_method_mkdir(struct request *r, struct err *e) {
    return jobs_start(r, names_work_mkdir, jobs_reply, NULL, e);
}

int names_method_rename(struct request *r, struct err *e) {
    return jobs_start(r, names_work_rename, jobs_reply, NULL, e);
}
