/* remove — a path, or a directory with all it holds.
 *
 * Links are removed, not followed; a mount is never entered. A tree may be deeper than descriptors last:
 * what lies DEPTH_MAX down is moved up to the top, and the walk begins again there. */
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
    int top; /* where deep directories are moved to */
    uint64_t moved;
    uint64_t removed;
};

/* A directory of the same mount, not through a link. */
static int open_below(int dir, const char *name) {
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

static int move_up(struct removal *m, int dir, const char *name) {
    char up[32];
    snprintf(up, sizeof up, ".berm-rm-%llu", (unsigned long long)m->moved++);
    return renameat(dir, name, m->top, up) < 0 ? -errno : 0;
}

static int remove_below(struct removal *m, int fd, int depth);

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
        return move_up(m, dir, name);
    int fd = open_below(dir, name);
    if (fd == -ENOTDIR) /* EPERM was meant */
        return -EPERM;
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    int r = remove_below(m, fd, depth + 1);
    if (r < 0)
        return r;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
        return errno == ENOENT ? 0 : -errno;
    m->removed++;
    return 0;
}

/* Empties a directory; takes fd. Names that others add meanwhile are met by the next round. */
static int remove_below(struct removal *m, int fd, int depth) {
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
    int fd = open_below(dir, name);
    if (fd < 0)
        return fd;
    m->top = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int r = m->top < 0 ? -errno : remove_below(m, fd, 1);
    if (m->top >= 0)
        close(m->top);
    else
        close(fd);
    if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0)
        r = -errno;
    m->removed += r == 0;
    return r;
}

int work_remove(struct work *w, struct err *e) {
    char *path;
    const char *name;
    bool recursive = false, missing_ok = false;
    if (path_param(w->params, "path", w->workspace, w->arena, &path, e) < 0 ||
        params_bool(w->params, "recursive", &recursive, e) < 0 ||
        params_bool(w->params, "missing_ok", &missing_ok, e) < 0)
        return -(int)e->code;
    path_clean(path);
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
