#include "core/file_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "core/registry_impl.h"

struct file_pipe {
    uv_poll_t poll;
    int fd;
    int events;
    bool is_plain; /* the kernel's pipes know no RWF_NOWAIT */
    void (*on_ready)(void *user);
    void *user;
};

struct file_pipe *file_pipe_open(struct file_call *f, const struct guest_answer *a, int access,
                                 void (*on_ready)(void *user), void *user) {
    struct stat st;
    int fd = a->n_fds == 1 ? a->fds[0] : -1;
    int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) != access || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return NULL;
    struct file_pipe *p = calloc(1, sizeof *p);
    if (!p || uv_poll_init(file_call_registry(f)->spec.loop, &p->poll, fd) < 0) {
        free(p);
        return NULL;
    }
    p->fd = TAKE_FD(a->fds[0]);
    p->poll.data = p;
    p->events = access == O_RDONLY ? UV_READABLE : UV_WRITABLE;
    p->on_ready = on_ready;
    p->user = user;
    return p;
}

static void on_closed(uv_handle_t *handle) {
    struct file_pipe *p = handle->data;
    close(p->fd);
    free(p);
}

void file_pipe_close(struct file_pipe *p) {
    if (p && !uv_is_closing((uv_handle_t *)&p->poll))
        uv_close((uv_handle_t *)&p->poll, on_closed);
}

/* Other flags of ours would be anybody's to change. */
static bool lacks_nowait(struct file_pipe *p, ssize_t r) {
    if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
        return false;
    p->is_plain = fcntl(p->fd, F_SETFL, O_NONBLOCK) == 0;
    return p->is_plain;
}

ssize_t file_pipe_read(struct file_pipe *p, void *out, size_t n) {
    struct iovec to = {out, n};
    ssize_t r = p->is_plain ? read(p->fd, out, n) : preadv2(p->fd, &to, 1, -1, RWF_NOWAIT);
    if (!p->is_plain && lacks_nowait(p, r))
        r = read(p->fd, out, n);
    return r >= 0 ? r : errno == EINTR ? -EAGAIN : -errno;
}

ssize_t file_pipe_write(struct file_pipe *p, const void *bytes, size_t n) {
    struct iovec from = {(void *)bytes, n};
    ssize_t r = p->is_plain ? write(p->fd, bytes, n) : pwritev2(p->fd, &from, 1, -1, RWF_NOWAIT);
    if (!p->is_plain && lacks_nowait(p, r))
        r = write(p->fd, bytes, n);
    return r >= 0 ? r : errno == EINTR ? -EAGAIN : -errno;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct file_pipe *p = poll->data;
    (void)status; /* the next read or write says it too */
    (void)events;
    uv_poll_stop(poll);
    p->on_ready(p->user);
}

void file_pipe_wait(struct file_pipe *p) {
    uv_poll_start(&p->poll, p->events, on_poll);
}
