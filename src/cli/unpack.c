/* Unpacks a tar stream from a sandbox below a local directory. The stream is untrusted:
 *
 * Safety: every member's directory is opened beneath the start without following links. Absolute
 *         names, ".." and devices are refused, and setuid bits are removed. Contents go to a new
 *         file (O_EXCL); an existing file of that name is unlinked first, never written. Links are
 *         created as they are and never followed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/tar.h"
#include "cli/cli.h"

#define OWNER_NEEDS 0700

/* A directory whose mode is set at the end, after its contents. */
struct late {
    struct late *next;
    mode_t mode;
    char *path;
};

struct unpack {
    struct cli *cli;
    struct progress *progress;
    int root;
    struct tar_in tar;
    char path[TAR_PATH_MAX + 1];
    int file; /* being written; -1: none */
    struct late *late;
    bool failed;
};

static int unpack_fail(struct unpack *u, const char *why) {
    progress_end(u->progress);
    cli_complain("%s: %s", cli_clean(u->cli, u->tar.member.path), why);
    u->failed = true;
    return -1;
}

/* Creates the missing parent directories of the member. */
static int make_parents(struct unpack *u) {
    char part[TAR_PATH_MAX + 1];
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

/* Uses /proc/self/fd, because fchmod does not work with O_PATH, and the path may lead elsewhere by
 * now. */
static int set_mode(int path_fd, mode_t mode) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
    return chmod(path, mode);
}

/* An existing directory keeps its mode. One without owner permissions, which an interrupted
 * download may have left, gets them until the end. */
static int make_directory(struct unpack *u, int dir, const char *name) {
    struct stat st;
    mode_t mode = u->tar.member.mode & 0777;
    bool is_new = mkdirat(dir, name, mode | OWNER_NEEDS) == 0;
    if (!is_new && errno != EEXIST)
        return -errno;
    AUTO_CLOSE int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!is_new)
        mode = st.st_mode & 07777;
    if ((mode & OWNER_NEEDS) == OWNER_NEEDS || set_mode(fd, mode | OWNER_NEEDS) < 0)
        return 0; /* already accessible, or owned by someone else */
    struct late *l = cli_alloc(u->cli, sizeof *l);
    *l = (struct late){.next = u->late, .mode = mode, .path = cli_text(u->cli, "%s", u->path)};
    u->late = l;
    return 0;
}

static int make_link(struct unpack *u, int dir, const char *name) {
    char path[TAR_PATH_MAX + 1];
    const char *target_name;
    if (tar_clean_path(u->tar.member.target, path))
        return -EXDEV;
    AUTO_CLOSE int target = fd_open_parent(u->root, path, &target_name);
    if (target < 0)
        return target;
    return linkat(target, target_name, dir, name, 0) < 0 ? -errno : 0;
}

static int make(struct unpack *u, int dir, const char *name) {
    const struct tar_member *m = &u->tar.member;
    if (m->type == TAR_DIRECTORY)
        return make_directory(u, dir, name);
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return -errno;
    if (m->type == TAR_SYMLINK)
        return symlinkat(m->target, dir, name) < 0 ? -errno : 0;
    if (m->type == TAR_LINK)
        return make_link(u, dir, name);
    u->file =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, m->mode & 0777);
    return u->file < 0 ? -errno : 0;
}

static int begin_member(struct unpack *u) {
    const char *name;
    const char *why = tar_clean_path(u->tar.member.path, u->path);
    if (why)
        return unpack_fail(u, why);
    if (u->path[0] == '\0')
        return u->tar.member.type == TAR_DIRECTORY ? 0 : unpack_fail(u, "has no name");
    int dir = fd_open_parent(u->root, u->path, &name);
    if (dir == -ENOENT && make_parents(u) == 0)
        dir = fd_open_parent(u->root, u->path, &name);
    if (dir < 0)
        return unpack_fail(u, strerror(-dir));
    int r = make(u, dir, name);
    close(dir);
    return r < 0 ? unpack_fail(u, strerror(-r)) : 0;
}

static int put_data(struct unpack *u, struct str data) {
    int r = fd_write_all(u->file, data.p, data.n);
    return r < 0 ? unpack_fail(u, strerror(-r)) : 0;
}

static int end_member(struct unpack *u) {
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                {.tv_sec = (time_t)u->tar.member.modified_s}};
    if (u->file < 0)
        return 0;
    futimens(u->file, times);
    return close(TAKE_FD(u->file)) < 0 ? unpack_fail(u, strerror(errno)) : 0;
}

static void unpack_begin(struct unpack *u) {
    tar_in_done(&u->tar);
    tar_in_init(&u->tar);
    if (u->file >= 0)
        close(TAKE_FD(u->file));
}

int unpack_sink(void *user, uint64_t offset, const void *bytes, size_t n) {
    struct unpack *u = user;
    struct str input = {bytes, n}, data;
    int r = 0;
    if (offset == 0)
        unpack_begin(u);
    while (r == 0) {
        switch (tar_in_next(&u->tar, &input, &data)) {
        case TAR_MORE:
            progress_at(u->progress, offset + n);
            return 0;
        case TAR_MEMBER:
            r = begin_member(u);
            break;
        case TAR_DATA:
            r = put_data(u, data);
            break;
        case TAR_END_OF_MEMBER:
            r = end_member(u);
            break;
        case TAR_END:
            break;
        default:
            r = unpack_fail(u, u->tar.why ? u->tar.why : "out of memory");
        }
    }
    return 1;
}

struct unpack *unpack_new(struct cli *cli, int root, struct progress *p) {
    struct unpack *u = cli_alloc(cli, sizeof *u);
    u->cli = cli;
    u->root = root;
    u->progress = p;
    u->file = -1;
    tar_in_init(&u->tar);
    return u;
}

bool unpack_end(struct unpack *u) {
    bool is_whole = tar_in_is_whole(&u->tar) && !u->failed;
    for (const struct late *l = u->late; l; l = l->next) { /* children before parents */
        AUTO_CLOSE int fd = fd_open_beneath(u->root, l->path, O_PATH | O_DIRECTORY, 0);
        if (fd >= 0)
            set_mode(fd, l->mode);
    }
    tar_in_done(&u->tar);
    if (u->file >= 0)
        close(TAKE_FD(u->file));
    if (!is_whole && !u->failed)
        cli_complain("the archive is truncated");
    return is_whole;
}
