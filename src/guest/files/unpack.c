/* unpack — a tar stream below a directory.
 *
 * Safety: every member's directory is opened below the start without following a link; a name that is absolute,
 *         has "..", or passes through a link is refused, and so is a link that leads outside. Contents are
 *         written to a file made anew (O_EXCL): what had the name before is unlinked, never written to.
 * Modes:  permissions as in the archive, without set-id bits; owners are the user's own. A directory that its
 *         owner may not write to gets its mode at the end.
 * Bounds: a read buffer, and LATE_BYTES of directories' names for that. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/tar.h"
#include "guest/files/archive.h"
#include "guest/files/files.h"
#include "guest/params.h"
#include "guest/path.h"

#define IN_BYTES 65536
#define TRIES 4 /* against somebody who puts something there again and again */
#define LATE_BYTES ((size_t)4 << 20)
#define OWNER_NEEDS 0700

_Static_assert(TAR_PATH_MAX <= PATH_LENGTH_MAX, "a member's name fits where ours do");

struct unpack {
    int root;
    int in, back;
    struct tar_in tar;
    char path[PATH_LENGTH_MAX + 1]; /* of the member, relative and clean; empty: the start itself */
    int file;                       /* being written; -1: none */
    struct buf late;                /* mode, path and NUL for each directory */
    size_t n_late;
    struct archive_result result;
};

static int refuse(struct unpack *u, const char *why) {
    struct err *e = &u->result.err;
    const char *path = u->tar.member.path;
    int r = err_set(e, ERR_TREE_INVALID, "member %.150s %s", path, why);
    size_t n = MIN(strlen(path), sizeof e->field - 1);
    while (n > 0 && !str_is_utf8(path, n) && n + 4 > sizeof e->field)
        n--; /* the cut went through a character */
    snprintf(e->field, sizeof e->field, "%.*s", (int)n, path);
    return r;
}

static int fail(struct unpack *u, int error, const char *what) {
    path_error(&u->result.err, error, what, u->tar.member.path);
    return -(int)u->result.err.code;
}

static int make_parents(struct unpack *u) {
    char part[PATH_LENGTH_MAX + 1];
    snprintf(part, sizeof part, "%s", u->path);
    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *name;
        *slash = '\0';
        AUTO_CLOSE int dir = fd_open_parent(u->root, part, &name);
        if (dir < 0)
            return dir;
        if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

/* The directory the member lies in, made where it is missing. */
static int open_parent(struct unpack *u, const char **ret_name) {
    int dir = fd_open_parent(u->root, u->path, ret_name);
    if (dir == -ENOENT) {
        dir = make_parents(u);
        if (dir == 0)
            dir = fd_open_parent(u->root, u->path, ret_name);
    }
    if (dir == -ELOOP || dir == -ENOTDIR || dir == -EXDEV)
        return refuse(u, "passes through a symlink or a file");
    return dir < 0 ? fail(u, -dir, "open the directory of") : dir;
}

/* Calls `make` until it does not meet something that has the name already. */
static int make_anew(struct unpack *u, int dir, const char *name,
                     int (*make)(struct unpack *u, int dir, const char *name)) {
    int r = -EEXIST;
    for (int i = 0; i < TRIES && r == -EEXIST; i++) {
        r = make(u, dir, name);
        if (r == -EEXIST && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
            return errno == EPERM ? -EISDIR : -errno;
    }
    return r;
}

static int make_file(struct unpack *u, int dir, const char *name) {
    u->file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     u->tar.member.mode & 0777);
    return u->file < 0 ? -errno : 0;
}

static int make_symlink(struct unpack *u, int dir, const char *name) {
    return symlinkat(u->tar.member.target, dir, name) < 0 ? -errno : 0;
}

static int make_link(struct unpack *u, int dir, const char *name) {
    char path[PATH_LENGTH_MAX + 1];
    const char *target_name;
    struct stat st;
    if (tar_clean_path(u->tar.member.target, path) || path[0] == '\0')
        return -EXDEV;
    AUTO_CLOSE int target = fd_open_parent(u->root, path, &target_name);
    if (target < 0)
        return target == -ELOOP || target == -ENOTDIR ? -EXDEV : target;
    if (fstatat(target, target_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EXDEV;
    return linkat(target, target_name, dir, name, 0) < 0 ? -errno : 0;
}

/* A directory that is there keeps its mode; one that its owner closed, as an upload that broke off may have left
 * it, is open until the end. */
static int make_directory(struct unpack *u, int dir, const char *name) {
    uint32_t mode = u->tar.member.mode & 0777;
    if (mkdirat(dir, name, mode | OWNER_NEEDS) < 0) {
        struct stat st;
        if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (!S_ISDIR(st.st_mode))
            return -ENOTDIR;
        mode = st.st_mode & 07777;
        if ((mode & OWNER_NEEDS) != OWNER_NEEDS && fchmodat(dir, name, mode | OWNER_NEEDS, 0) < 0)
            return 0; /* somebody else's */
    }
    if ((mode & OWNER_NEEDS) == OWNER_NEEDS)
        return 0;
    size_t n = strlen(u->path) + 1;
    uint8_t *at;
    if (buf_reserve(&u->late, sizeof mode + n, &at) < 0)
        return -ENOMEM;
    memcpy(at, &mode, sizeof mode);
    memcpy(at + sizeof mode, u->path, n);
    buf_commit(&u->late, sizeof mode + n);
    u->n_late++;
    return 0;
}

static int begin_member(struct unpack *u) {
    const struct tar_member *m = &u->tar.member;
    const char *name, *why = tar_clean_path(m->path, u->path);
    if (why)
        return refuse(u, why);
    if (u->path[0] == '\0') { /* the start itself */
        u->result.directories += m->type == TAR_DIRECTORY;
        return m->type == TAR_DIRECTORY ? 0 : refuse(u, "has no name");
    }
    if (m->type == TAR_SYMLINK && tar_link_leads_outside(u->path, m->target))
        return refuse(u, "links outside");
    AUTO_CLOSE int dir = open_parent(u, &name);
    if (dir < 0)
        return dir;
    int r = 0;
    switch (m->type) {
    case TAR_FILE:
        r = make_anew(u, dir, name, make_file);
        break;
    case TAR_LINK:
        r = make_anew(u, dir, name, make_link);
        if (r == -EXDEV)
            return refuse(u, "links outside");
        if (r == -ENOENT)
            return refuse(u, "links to what is not there");
        break;
    case TAR_SYMLINK:
        r = make_anew(u, dir, name, make_symlink);
        break;
    case TAR_DIRECTORY:
        r = make_directory(u, dir, name);
        break;
    }
    if (r < 0)
        return fail(u, -r, "make");
    u->result.directories += m->type == TAR_DIRECTORY;
    u->result.files += m->type != TAR_DIRECTORY;
    return 0;
}

static int put_data(struct unpack *u, struct str data) {
    int r = fd_write_all(u->file, data.p, data.n);
    if (r < 0)
        return fail(u, -r, "write");
    u->result.total_bytes += data.n;
    return 0;
}

static void end_member(struct unpack *u) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = (time_t)u->tar.member.modified_s}};
    if (u->file < 0)
        return;
    futimens(u->file, times);
    close(u->file);
    u->file = -1;
}

/* All that is in `input`. */
static int take(struct unpack *u, struct str input) {
    for (;;) {
        struct str data;
        int r = tar_in_next(&u->tar, &input, &data);
        if (r == -EBADMSG)
            return refuse(u, u->tar.why);
        if (r < 0)
            return fail(u, -r, "read");
        switch ((enum tar_event)r) {
        case TAR_MORE:
            return 0;
        case TAR_MEMBER:
            r = begin_member(u);
            break;
        case TAR_DATA:
            r = put_data(u, data);
            break;
        case TAR_END_OF_MEMBER:
            end_member(u);
            r = 0;
            break;
        case TAR_END:
            r = 0;
            break;
        }
        if (r < 0)
            return r;
    }
}

/* From the last to the first: a directory comes before what it holds, and must be closed after it. */
static void set_late_modes(struct unpack *u) {
    const char *at = (const char *)buf_data(&u->late);
    const char **all = malloc((u->n_late + 1) * sizeof *all);
    if (!all)
        return;
    for (size_t i = 0; i < u->n_late; i++) {
        all[i] = at;
        at += sizeof(uint32_t) + strlen(at + sizeof(uint32_t)) + 1;
    }
    for (size_t i = u->n_late; i-- > 0;) {
        uint32_t mode;
        memcpy(&mode, all[i], sizeof mode);
        AUTO_CLOSE int fd = fd_open_entry(u->root, all[i] + sizeof mode, O_RDONLY | O_DIRECTORY);
        if (fd >= 0)
            fchmod(fd, mode);
    }
    free(all);
}

static int read_all(struct unpack *u) {
    char *bytes = malloc(IN_BYTES);
    int r = bytes ? 0 : fail(u, ENOMEM, "read");
    while (r == 0) {
        ssize_t n = read(u->in, bytes, IN_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(u, errno, "read");
        if (n == 0)
            break;
        r = take(u, (struct str){bytes, (size_t)n});
    }
    if (r == 0 && !tar_in_is_whole(&u->tar))
        return err_set(&u->result.err, ERR_TREE_INVALID, "the archive ends too early");
    return r;
}

static void unpack_run(struct work *w) {
    struct unpack *u = w->then_arg;
    if (read_all(u) == 0)
        u->result.err.code = ERR_NONE;
    set_late_modes(u);
    archive_end(u->back, &u->result);
}

int work_unpack(struct work *w, struct err *e) {
    char *path;
    struct unpack *u = calloc(1, sizeof *u);
    if (!u)
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory to unpack");
    if (path_param(w->params, "path", w->workspace, w->arena, &path, e) < 0)
        return -(int)e->code;
    path_clean(path);
    tar_in_init(&u->tar);
    buf_init(&u->late, LATE_BYTES);
    u->file = -1;
    u->root = path_open(path, O_PATH | O_DIRECTORY, 0);
    if (u->root == -ENOENT) {
        const char *name;
        int r = path_make_parents(path, w->arena);
        AUTO_CLOSE int dir = r < 0 ? r : path_open_parent(path, &name);
        if (dir >= 0 && mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return path_error(e, errno, "make", path);
        u->root = dir < 0 ? dir : path_open(path, O_PATH | O_DIRECTORY, 0);
    }
    if (u->root < 0)
        return path_error(e, -u->root, "open", path);
    if (archive_begin(w, true, &u->in, &u->back, e) < 0)
        return -(int)e->code;
    w->then = unpack_run;
    w->then_arg = u;
    return 0;
}
