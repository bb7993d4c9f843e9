#include "guest/files/files.h"
#include "guest/files/info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "guest/files/archive.h"
#include "guest/files/newfile.h"
#include "guest/guest.h"
#include "guest/params.h"
#include "guest/path.h"
#include "guest/reply.h"

#define CHUNK_MAX 49152

static int files_work_read(struct work *w, struct err *e) {
    char *path;
    struct stat st;
    if (work_path(w, "path", &path, e) < 0)
        return -(int)e->code;
    int fd = path_open_regular(path, e);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return path_error(e, errno, "stat", path);
    info_put(w->out, path, &st, -1);
    w->fds[w->n_fds++] = fd;
    return 0;
}

/* Replies with the handle and the members, and passes the file if the link passes files. */
static void files_reply_handle(struct guest *g, struct job *j, const struct handle *h,
                               struct str members) {
    char head[64];
    int copy = link_passes_files(&g->link) ? fcntl(h->fd, F_DUPFD_CLOEXEC, 3) : -1;
    int n = snprintf(head, sizeof head, "\"handle\":%llu,\"fds\":%d%s", (unsigned long long)h->id,
                     copy >= 0, members.n ? "," : "");
    char *text = arena_alloc(&g->arena, (size_t)n + members.n);
    struct err e;
    if (!text) {
        err_set(&e, ERR_OUT_OF_MEMORY, "reply with a handle: out of memory");
        reply_error(g, j->generation, j->id, &e, -1);
        return;
    }
    memcpy(text, head, (size_t)n);
    memcpy(text + n, members.p, members.n);
    reply_send(g, j->generation, j->id, (struct str){text, (size_t)n + members.n}, &copy,
               copy >= 0);
}

/* Makes a handle of the descriptors and takes ownership of them. A handle belongs to a connection.
 * If the connection that sent the request is gone, replies with an error and returns NULL. */
static struct handle *files_new_handle(struct guest *g, struct job *j, const int *fds,
                                       size_t n_fds) {
    struct err e;
    bool wanted = g->link.connected && g->link.generation == j->generation;
    struct handle *h = wanted ? handles_add(&g->handles) : NULL;
    if (!h) {
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        err_set(&e, ERR_LIMIT_REACHED, "%d handles are open, the maximum", HANDLES_MAX);
        reply_error(g, j->generation, j->id, &e, -1);
        return NULL;
    }
    h->fd = n_fds > 0 ? fds[0] : -1;
    h->dir = n_fds > 1 ? fds[1] : -1;
    return h;
}

void files_reply_opened(struct guest *g, struct job *j, struct str members, const int *fds,
                        size_t n_fds) {
    arena_reset(&g->arena);
    struct handle *h = files_new_handle(g, j, fds, n_fds);
    if (h)
        files_reply_handle(g, j, h, members);
}

static int files_work_write(struct work *w, struct err *e) {
    char *path, temp[NEWFILE_NAME];
    const char *name;
    int64_t asked_mode = -1;
    mode_t mode = 0644;
    bool make_parents = false, must_not_exist = false;
    if (path_param(w->params, "path", w->workspace, w->arena, &path, e) < 0 ||
        params_int(w->params, "mode", 0, 0777, &asked_mode, e) < 0 ||
        params_bool(w->params, "make_parents", &make_parents, e) < 0 ||
        params_bool(w->params, "must_not_exist", &must_not_exist, e) < 0)
        return -(int)e->code;
    size_t n = strlen(path);
    if (path[n - 1] == '/')
        return err_set(e, ERR_IS_A_DIRECTORY, "%.150s is a directory", path);
    path_clean(path);
    int r = make_parents ? path_make_parents(path, w->arena) : 0;
    if (r < 0)
        return path_error(e, -r, "make the parents of", path);
    if (newfile_follow(w->arena, &path, e) < 0)
        return -(int)e->code;
    AUTO_CLOSE int dir = path_open_parent(path, &name);
    if (dir < 0)
        return path_error(e, -dir, "open the parent of", path);
    if (newfile_check(dir, name, path, must_not_exist, &mode, e) < 0)
        return -(int)e->code;
    int fd = newfile_open(dir, temp);
    if (fd < 0)
        return path_error(e, -fd, "create a file in the parent of", path);
    json_key(w->out, "path_b64");
    json_base64(w->out, path, strlen(path));
    json_put_str(w->out, "temp", str_of(temp));
    json_put_u64(w->out, "mode", asked_mode >= 0 ? (mode_t)asked_mode : mode);
    json_put_bool(w->out, "must_not_exist", must_not_exist);
    json_put_u64(w->out, "uid", geteuid());
    w->fds[0] = fd;
    w->fds[1] = TAKE_FD(dir);
    w->n_fds = 2;
    return 0;
}

/* Copies what files_work_write reported into the handle. Returns false when the report is not valid. */
static bool files_read_report(struct guest *g, struct handle *h, struct str members) {
    static const struct json_bounds bounds = {.depth = 2, .nodes = 16, .members = 8};
    char *text = arena_alloc(&g->arena, members.n + 2);
    struct json *root;
    struct str path = {0}, temp = {0};
    struct err e;
    int64_t mode = -1, uid = -1;
    if (!text)
        return false;
    text[0] = '{';
    memcpy(text + 1, members.p, members.n);
    text[members.n + 1] = '}';
    if (json_parse(&g->arena, text, members.n + 2, &bounds, &root) < 0 ||
        params_base64(root, "path_b64", &g->arena, PATH_LENGTH_MAX, &path, &e) < 0 ||
        params_str(root, "temp", sizeof h->temp - 1, &temp, &e) < 0 ||
        params_int(root, "mode", 0, 0777, &mode, &e) < 0 ||
        params_int(root, "uid", 0, UINT32_MAX, &uid, &e) < 0 ||
        params_bool(root, "must_not_exist", &h->must_not_exist, &e) < 0 || mode < 0 || uid < 0)
        return false;
    h->is_writing = true;
    h->mode = (mode_t)mode;
    h->uid = (uint32_t)uid;
    memcpy(h->temp, temp.p, temp.n);
    h->path = strndup(path.p, path.n);
    return h->path != NULL;
}

static void files_on_write(struct guest *g, struct job *j, struct str members, const int *fds,
                           size_t n_fds) {
    arena_reset(&g->arena);
    struct handle *h = files_new_handle(g, j, fds, n_fds);
    struct err e;
    if (!h)
        return;
    if (files_read_report(g, h, members)) {
        files_reply_handle(g, j, h, (struct str){"", 0});
        return;
    }
    handles_close(h);
    err_set(&e, ERR_INTERNAL, "the report of the process that opened the file is not valid");
    reply_error(g, j->generation, j->id, &e, -1);
}

static int files_work_commit(struct work *w, struct err *e) {
    const struct handle *h = w->handle;
    int64_t size;
    struct stat st;
    if (params_need_int(w->params, "size_bytes", 0, PARAMS_OFFSET_MAX, &size, e) < 0)
        return -(int)e->code;
    if (fstat(h->fd, &st) < 0)
        return path_error(e, errno, "stat", h->path);
    if (st.st_size != size)
        return err_set(e, ERR_UPLOAD_INCOMPLETE,
                       "size_bytes: must be the %lld bytes that came, got %lld",
                       (long long)st.st_size, (long long)size);
    const char *name = strrchr(h->path, '/') + 1;
    mode_t mode = h->mode;
    bool created = fstatat(h->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    if (!created && newfile_check(h->dir, name, h->path, h->must_not_exist, &mode, e) < 0)
        return -(int)e->code;
    if (fchmod(h->fd, h->mode) < 0)
        return path_error(e, errno, "chmod", h->path);
    int r = newfile_place(h->fd, h->dir, h->temp, name, !h->must_not_exist);
    if (r < 0)
        return path_error(e, -r, "replace", h->path);
    if (fstat(h->fd, &st) < 0)
        return path_error(e, errno, "stat", h->path);
    json_put_bool(w->out, "created", created);
    info_put(w->out, h->path, &st, -1);
    return 0;
}

static void files_on_commit(struct guest *g, struct job *j, struct str members, const int *fds,
                            size_t n_fds) {
    struct handle *h = handles_find(&g->handles, j->handle);
    if (h) {
        h->temp[0] = '\0'; /* commit has renamed the temporary file to the target */
        handles_close(h);
    }
    jobs_reply(g, j, members, fds, n_fds);
}

static int files_find_handle(struct request *r, struct handle **ret, struct err *e) {
    int64_t id;
    if (params_need_int(r->params, "handle", 1, PARAMS_OFFSET_MAX, &id, e) < 0)
        return -(int)e->code;
    *ret = handles_find(&r->guest->handles, (uint64_t)id);
    return *ret ? 0 : err_field(e, "handle", "must be an open handle, got %lld", (long long)id);
}

static int files_work_sync(struct work *w, struct err *e) {
    (void)w;
    (void)e;
    sync();
    return 0;
}

int files_method_sync(struct request *r, struct err *e) {
    return jobs_start(r, files_work_sync, jobs_reply, NULL, e);
}

int files_method_read(struct request *r, struct err *e) {
    return jobs_start(r, files_work_read, files_reply_opened, NULL, e);
}

int files_method_write(struct request *r, struct err *e) {
    return jobs_start(r, files_work_write, files_on_write, NULL, e);
}

int files_method_commit(struct request *r, struct err *e) {
    struct handle *h;
    if (files_find_handle(r, &h, e) < 0)
        return -(int)e->code;
    if (!h->is_writing)
        return err_field(e, "handle", "must be open for writing");
    return jobs_start(r, files_work_commit, files_on_commit, h, e);
}

int files_method_close(struct request *r, struct err *e) {
    struct handle *h;
    if (files_find_handle(r, &h, e) < 0)
        return -(int)e->code;
    handles_close(h);
    return 0;
}

int files_method_read_chunk(struct request *r, struct err *e) {
    struct handle *h;
    int64_t offset, max;
    if (files_find_handle(r, &h, e) < 0 ||
        params_need_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_need_int(r->params, "max_bytes", 1, CHUNK_MAX, &max, e) < 0)
        return -(int)e->code;
    if (h->archive)
        return archive_read(h->archive, r, (uint64_t)offset, (size_t)max, e);
    ssize_t n = pread(h->fd, r->guest->scratch, (size_t)max, offset);
    if (n < 0)
        return path_error(e, errno, "read", "the file");
    json_key(r->out, "data_b64");
    json_base64(r->out, r->guest->scratch, (size_t)n);
    json_put_bool(r->out, "end", n == 0 || n < max);
    return 0;
}

int files_method_write_chunk(struct request *r, struct err *e) {
    struct handle *h;
    int64_t offset;
    struct str data;
    if (files_find_handle(r, &h, e) < 0 ||
        params_need_int(r->params, "offset", 0, PARAMS_OFFSET_MAX, &offset, e) < 0 ||
        params_base64(r->params, "data_b64", &r->guest->arena, CHUNK_MAX, &data, e) < 0)
        return -(int)e->code;
    if (!data.p)
        return params_missing("data_b64", e);
    if (h->archive)
        return archive_write(h->archive, r, (uint64_t)offset, data, e);
    if (!h->is_writing)
        return err_field(e, "handle", "must be open for writing");
    for (size_t done = 0; done < data.n;) {
        ssize_t n = pwrite(h->fd, data.p + done, data.n - done, offset + (off_t)done);
        if (n < 0)
            return path_error(e, errno, "write", h->path);
        done += (size_t)n;
    }
    json_put_u64(r->out, "next_offset", (uint64_t)offset + data.n);
    return 0;
}
