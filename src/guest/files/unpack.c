/* unpack — the child process that extracts a tar stream below a directory, called "the start" here.
 *
 * Safety: the child opens the directory of every member below the start, without following symlinks. It
 *         refuses a name that is absolute, contains "..", or passes through a symlink, and a link that leads
 *         outside the start. It writes contents to new files only (O_EXCL): it unlinks a file that has the
 *         name already, and never writes to it.
 * Modes:  permissions as in the archive, without set-id bits. The sandbox user owns everything. A directory
 *         that its owner may not write to gets its mode at the end.
 * Bounds: a read buffer, and LATE_BYTES for the names of such directories. */
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
#define TRIES 4 /* another process may create the name again and again */
#define LATE_BYTES ((size_t)4 << 20)
#define OWNER_NEEDS 0700

_Static_assert(TAR_PATH_MAX <= PATH_LENGTH_MAX, "the name of a member must fit into a path");

struct unpack {
    int root;
    int in, sock;
    struct tar_in tar;
    char path[PATH_LENGTH_MAX + 1]; /* path of the member, relative and clean; empty: the start */
    int file;                       /* the file that is being written; -1: none */
    struct buf late; /* mode and path, with NUL, of each directory whose mode is set at the end */
    size_t n_late;
    struct archive_result result;
};

static int unpack_refuse(struct unpack *u, const char *why) {
    struct err *e = &u->result.err;
    const char *path = u->tar.member.path;
    int r = err_set(e, ERR_TREE_INVALID, "member %.150s %s", path, why);
    size_t n = MIN(strlen(path), sizeof e->field - 1);
    while (n > 0 && !str_is_utf8(path, n) && n + 4 > sizeof e->field)
        n--; /* do not end in the middle of a UTF-8 character */
    snprintf(e->field, sizeof e->field, "%.*s", (int)n, path);
    return r;
}

static int unpack_fail(struct unpack *u, int error, const char *what) {
    path_error(&u->result.err, error, what, u->tar.member.path);
    return -(int)u->result.err.code;
}

static int unpack_make_parents(struct unpack *u) {
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

/* Opens the directory of the member, and makes missing ones. */
static int unpack_open_parent(struct unpack *u, const char **ret_name) {
    int dir = fd_open_parent(u->root, u->path, ret_name);
    if (dir == -ENOENT) {
        dir = unpack_make_parents(u);
        if (dir == 0)
            dir = fd_open_parent(u->root, u->path, ret_name);
    }
    if (dir == -ELOOP || dir == -ENOTDIR || dir == -EXDEV)
        return unpack_refuse(u, "passes through a symlink or a file");
    return dir < 0 ? unpack_fail(u, -dir, "open the parent of") : dir;
}

/* Calls `make` to create the name. Unlinks a file that has the name already. */
static int unpack_make_new(struct unpack *u, int dir, const char *name,
                           int (*make)(struct unpack *u, int dir, const char *name)) {
    int r = -EEXIST;
    for (int i = 0; i < TRIES && r == -EEXIST; i++) {
        r = make(u, dir, name);
        if (r == -EEXIST && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
            return errno == EPERM ? -EISDIR : -errno;
    }
    return r;
}

static int unpack_make_file(struct unpack *u, int dir, const char *name) {
    u->file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                     u->tar.member.mode & 0777);
    return u->file < 0 ? -errno : 0;
}

static int unpack_make_symlink(struct unpack *u, int dir, const char *name) {
    return symlinkat(u->tar.member.target, dir, name) < 0 ? -errno : 0;
}

static int unpack_make_link(struct unpack *u, int dir, const char *name) {
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

/* An existing directory ends with the mode that it had. If that mode denies its owner read, write or
 * search, as an interrupted upload may leave it, the child grants the owner all three during the
 * extraction and restores the mode at the end. */
static int unpack_make_directory(struct unpack *u, int dir, const char *name) {
    uint32_t mode = u->tar.member.mode & 0777;
    if (mkdirat(dir, name, mode | OWNER_NEEDS) < 0) {
        struct stat st;
        if (errno != EEXIST || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (!S_ISDIR(st.st_mode))
            return -ENOTDIR;
        mode = st.st_mode & 07777;
        if ((mode & OWNER_NEEDS) != OWNER_NEEDS && fchmodat(dir, name, mode | OWNER_NEEDS, 0) < 0)
            return 0; /* another user owns the directory */
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

static int unpack_begin_member(struct unpack *u) {
    const struct tar_member *m = &u->tar.member;
    const char *name, *why = tar_clean_path(m->path, u->path);
    if (why)
        return unpack_refuse(u, why);
    if (u->path[0] == '\0') { /* the member is the start itself */
        u->result.directories += m->type == TAR_DIRECTORY;
        return m->type == TAR_DIRECTORY ? 0 : unpack_refuse(u, "has no name");
    }
    if (m->type == TAR_SYMLINK && tar_link_leads_outside(u->path, m->target))
        return unpack_refuse(u, "links outside");
    AUTO_CLOSE int dir = unpack_open_parent(u, &name);
    if (dir < 0)
        return dir;
    int r = 0;
    switch (m->type) {
    case TAR_FILE:
        r = unpack_make_new(u, dir, name, unpack_make_file);
        break;
    case TAR_LINK:
        r = unpack_make_new(u, dir, name, unpack_make_link);
        if (r == -EXDEV)
            return unpack_refuse(u, "links outside");
        if (r == -ENOENT)
            return unpack_refuse(u, "links to what is not there");
        break;
    case TAR_SYMLINK:
        r = unpack_make_new(u, dir, name, unpack_make_symlink);
        break;
    case TAR_DIRECTORY:
        r = unpack_make_directory(u, dir, name);
        break;
    }
    if (r < 0)
        return unpack_fail(u, -r, "create");
    u->result.directories += m->type == TAR_DIRECTORY;
    u->result.files += m->type != TAR_DIRECTORY;
    return 0;
}

static int unpack_put_data(struct unpack *u, struct str data) {
    int r = fd_write_all(u->file, data.p, data.n);
    if (r < 0)
        return unpack_fail(u, -r, "write");
    u->result.total_bytes += data.n;
    return 0;
}

static void unpack_end_member(struct unpack *u) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = (time_t)u->tar.member.modified_s}};
    if (u->file < 0)
        return;
    futimens(u->file, times);
    close(u->file);
    u->file = -1;
}

/* Extracts everything in `input`. */
static int unpack_extract(struct unpack *u, struct str input) {
    for (;;) {
        struct str data;
        int r = tar_in_next(&u->tar, &input, &data);
        if (r == -EBADMSG)
            return unpack_refuse(u, u->tar.why);
        if (r < 0)
            return unpack_fail(u, -r, "read");
        switch ((enum tar_event)r) {
        case TAR_MORE:
            return 0;
        case TAR_MEMBER:
            r = unpack_begin_member(u);
            break;
        case TAR_DATA:
            r = unpack_put_data(u, data);
            break;
        case TAR_END_OF_MEMBER:
            unpack_end_member(u);
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

/* Sets the modes of directories from the last to the first: a directory precedes its entries in the archive, and
 * must lose its permissions after them. */
static void unpack_set_late_modes(struct unpack *u) {
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

static int unpack_read_all(struct unpack *u) {
    char *bytes = malloc(IN_BYTES);
    int r = bytes ? 0 : unpack_fail(u, ENOMEM, "read");
    while (r == 0) {
        ssize_t n = read(u->in, bytes, IN_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return unpack_fail(u, errno, "read");
        if (n == 0)
            break;
        r = unpack_extract(u, (struct str){bytes, (size_t)n});
    }
    if (r == 0 && !tar_in_is_whole(&u->tar))
        return err_set(&u->result.err, ERR_TREE_INVALID, "the archive is truncated");
    return r;
}

static void unpack_run(struct work *w) {
    struct unpack *u = w->then_arg;
    if (unpack_read_all(u) == 0)
        u->result.err.code = ERR_NONE;
    unpack_set_late_modes(u);
    archive_end(u->sock, &u->result);
}

/* Opens the directory to unpack into, and creates it and its parents if it does not exist. */
static int unpack_open_root(struct work *w, struct unpack *u, char *path, struct err *e) {
    u->root = path_open(path, O_PATH | O_DIRECTORY, 0);
    if (u->root == -ENOENT) {
        const char *name;
        int r = path_make_parents(path, w->arena);
        AUTO_CLOSE int dir = r < 0 ? r : path_open_parent(path, &name);
        if (dir >= 0 && mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
            return path_error(e, errno, "mkdir", path);
        u->root = dir < 0 ? dir : path_open(path, O_PATH | O_DIRECTORY, 0);
    }
    return u->root < 0 ? path_error(e, -u->root, "open", path) : 0;
}

int unpack_work(struct work *w, struct err *e) {
    char *path;
    struct unpack *u = calloc(1, sizeof *u);
    if (!u)
        return err_set(e, ERR_OUT_OF_MEMORY, "unpack: out of memory");
    if (work_path(w, "path", &path, e) < 0)
        return -(int)e->code;
    tar_in_init(&u->tar);
    buf_init(&u->late, LATE_BYTES);
    u->file = -1;
    if (unpack_open_root(w, u, path, e) < 0 || archive_begin(w, true, &u->in, &u->sock, e) < 0)
        return -(int)e->code;
    w->then = unpack_run;
    w->then_arg = u;
    return 0;
}
