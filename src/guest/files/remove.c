/* remove — the request that removes a file or a directory tree.
 *
 * It removes symlinks without following them, and never enters a mount. Each level of a tree takes one
 * descriptor, so a directory DEPTH_MAX levels down is moved to the top of the tree and removed from there. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "guest/files/files.h"
#include "guest/params.h"
#include "guest/path.h"

#define DEPTH_MAX 64

struct removal {
    int top; /* the directory that deep directories are moved to */
    uint64_t moved;
    uint64_t removed;
};

/* Opens a subdirectory on the same mount; follows no symlink. */
static int remove_open_dir(int dir, const char *name) {
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    do
        fd = syscall(SYS_openat2, dir, name, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || errno == EAGAIN));
    if (fd < 0 && errno == ENOSYS)
        fd = openat(dir, name, (int)how.flags);
    return fd < 0 ? -errno : (int)fd;
}

static int remove_move_up(struct removal *m, int dir, const char *name) {
    char up[32];
    snprintf(up, sizeof up, ".berm-rm-%llu", (unsigned long long)m->moved++);
    return renameat(dir, name, m->top, up) < 0 ? -errno : 0;
}

static int remove_contents(struct removal *m, int fd, int depth);

static int remove_entry(struct removal *m, int dir, const char *name, int depth) {
    if (unlinkat(dir, name, 0) == 0) {
        m->removed++;
        return 0;
    }
    if (errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth == DEPTH_MAX)
        return remove_move_up(m, dir, name);
    int fd = remove_open_dir(dir, name);
    if (fd == -ENOTDIR) /* unlink failed with EPERM on a file */
        return -EPERM;
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int r = remove_contents(m, fd, depth + 1);
    if (r < 0)
        return r;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
        return errno == ENOENT ? 0 : -errno;
    m->removed++;
    return 0;
}

/* Removes everything in a directory and takes ownership of fd. Repeats until a whole pass finds no
 * name, because other processes may add names. */
static int remove_contents(struct removal *m, int fd, int depth) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int error = errno;
        close(fd);
        return -error;
    }
    int r = 0;
    for (bool again = true; again && r == 0;) {
        again = false;
        rewinddir(dir);
        for (struct dirent *d; r == 0 && (d = readdir(dir));) {
            if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
                continue;
            r = remove_entry(m, fd, d->d_name, depth);
            again = true;
        }
    }
    closedir(dir);
    return r;
}

static int remove_tree(struct removal *m, int dir, const char *name) {
    int fd = remove_open_dir(dir, name);
    if (fd < 0)
        return fd;
    m->top = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int r = m->top < 0 ? -errno : remove_contents(m, fd, 1);
    if (m->top >= 0)
        close(m->top);
    else
        close(fd);
    if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
        r = -errno;
    m->removed += r == 0;
    return r;
}

static int remove_work(struct work *w, struct err *e) {
    char *path;
    const char *name;
    bool recursive = false, missing_ok = false;
    if (work_path(w, "path", &path, e) < 0 ||
        params_bool(w->params, "recursive", &recursive, e) < 0 ||
        params_bool(w->params, "missing_ok", &missing_ok, e) < 0)
        return -(int)e->code;
    struct removal m = {.top = -1};
    AUTO_CLOSE int dir = path_open_parent(path, &name);
    struct stat st;
    int r = dir < 0 ? dir : fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
    if (r == 0 && S_ISDIR(st.st_mode) && recursive)
        r = remove_tree(&m, dir, name);
    else if (r == 0)
        r = unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
    if (r == 0 && m.removed == 0)
        m.removed = 1;
    if (r == -ENOENT && missing_ok)
        r = 0;
    if (r < 0)
        return path_error(e, -r, "remove", path);
    json_put_u64(w->out, "removed", m.removed);
    return 0;
}

int remove_method(struct request *r, struct err *e) {
    return jobs_start(r, remove_work, jobs_reply, NULL, e);
}
