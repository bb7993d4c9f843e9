#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define AGAIN_TURNS 128

int fd_send(int sock, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds) {
    if (n_bytes == 0 || n_fds > FD_PASS_MAX)
        return -EINVAL;
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)bytes, .iov_len = n_bytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_fds > 0) {
        memset(&control, 0, sizeof control);
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == n_bytes ? 0 : -EIO;
}

/* Moves the descriptors of every SCM_RIGHTS block into `fds`. Closes descriptors beyond max_fds. */
static size_t fd_collect(struct msghdr *msg, int *fds, size_t max_fds, bool *ret_over) {
    size_t n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (n < max_fds) {
                fds[n++] = fd;
            } else {
                close(fd);
                *ret_over = true;
            }
        }
    }
    return n;
}

ssize_t fd_recv(int sock, void *bytes, size_t max_bytes, int *fds, size_t max_fds,
                size_t *ret_n_fds) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(FD_PASS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = bytes, .iov_len = max_bytes};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = sizeof control.space};
    ssize_t n;
    do
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    bool over = (msg.msg_flags & MSG_TRUNC) != 0, cut = (msg.msg_flags & MSG_CTRUNC) != 0;
    size_t n_fds = fd_collect(&msg, fds, max_fds, &over);
    if (over || cut) {
        fd_close_all(fds, n_fds);
        return over || n_fds == FD_PASS_MAX ? -EMSGSIZE : -EMFILE;
    }
    *ret_n_fds = n_fds;
    return n;
}

static int fd_open_resolve(int dir, const char *path, int flags, mode_t mode, uint64_t resolve) {
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0,
        .resolve = resolve | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    long fd;
    int turn = 0;
    do /* a rename during the lookup causes EAGAIN: retry; bounded, as a lease causes it too */
        fd = syscall(SYS_openat2, dir, path, &how, sizeof how);
    while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++turn < AGAIN_TURNS)));
    return fd < 0 ? -errno : (int)fd;
}

int fd_open_beneath(int dir, const char *path, int flags, mode_t mode) {
    return fd_open_resolve(dir, path, flags, mode, 0);
}

/* For kernels without openat2: opens one component at a time, without following links. */
static int fd_open_by_steps(int dir, const char *path, int flags) {
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    for (;;) {
        char name[NAME_MAX + 1];
        size_t n = strcspn(path, "/");
        bool is_last = path[n] == '\0';
        if (at < 0 || n > NAME_MAX) {
            if (at >= 0)
                close(at);
            return at < 0 ? -errno : -ENAMETOOLONG;
        }
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        int next = openat(at, n > 0 ? name : ".",
                          is_last ? flags : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int error = errno;
        close(at);
        if (is_last || next < 0)
            return next < 0 ? -error : next;
        at = next;
        path += n + 1;
    }
}

int fd_open_entry(int dir, const char *path, int flags) {
    flags |= O_NOFOLLOW | O_CLOEXEC | (flags & O_PATH ? 0 : O_NOCTTY | O_NONBLOCK);
    int fd = fd_open_beneath(dir, path[0] ? path : ".", flags, 0);
    return fd == -ENOSYS ? fd_open_by_steps(dir, path, flags) : fd;
}

int fd_open_unmounted(int dir, const char *path) {
    return fd_open_resolve(dir, path, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0,
                           RESOLVE_NO_XDEV);
}

int fd_open_parent(int dir, const char *path, const char **ret_name) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 0, path);
    return fd_open_entry(dir, parent, O_PATH | O_DIRECTORY);
}

bool fd_has_entry(int dir, const char *name) {
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int fd_make_dir(int dir, const char *name, mode_t mode) {
    if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
        return -errno;
    return fd_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
}

int fd_sealed_copy(const char *name, int source) {
    struct stat st;
    if (fstat(source, &st) < 0)
        return -errno;
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    off_t at = 0;
    while (at < st.st_size) {
        ssize_t n = sendfile(fd, source, &at, (size_t)(st.st_size - at));
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
    }
    if (fchmod(fd, 0555) < 0)
        return -errno;
    int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    if (fcntl(fd, F_ADD_SEALS, seals) < 0)
        return -errno;
    return TAKE_FD(fd);
}

int fd_write_all(int fd, const void *bytes, size_t n) {
    for (const char *at = bytes; n > 0;) {
        ssize_t put = write(fd, at, n);
        if (put < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (put < 0 && errno != EINTR)
            return -errno;
        at += MAX(put, 0);
        n -= (size_t)MAX(put, 0);
    }
    return 0;
}

int fd_write_text(int dir, const char *path, const char *text) {
    AUTO_CLOSE int fd = openat(dir, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

ssize_t fd_read_text(int dir, const char *path, char *out, size_t cap) {
    AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, out + len, cap - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) {
            out[len] = '\0';
            return (ssize_t)len;
        }
        len += (size_t)n;
    }
    return -EFBIG;
}

bool fd_are_available(int any, unsigned n) {
    struct rlimit most;
    int lowest = fcntl(any, F_DUPFD_CLOEXEC, 0);
    if (lowest < 0 || close(lowest) < 0 || getrlimit(RLIMIT_NOFILE, &most) < 0)
        return false;
    return (rlim_t)lowest + MAX(n, most.rlim_cur / 16) <= most.rlim_cur;
}

void fd_close_all(int *fds, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}
