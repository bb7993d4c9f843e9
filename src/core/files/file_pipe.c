#include "core/files/file_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "base/fd.h"

#define CHUNK_BYTES ((size_t)GUEST_CHUNK_BYTES)
#define OWN_BYTES ((size_t)65536) /* the default capacity of a pipe */

/* The state of a pipe that stays in the guest, so that its bytes travel in chunks. */
struct chunks {
    struct file_call *file; /* NULL: bermd has the descriptor of the pipe */
    uint64_t offset;        /* offset of the first byte in `bytes` */
    uint8_t *bytes; /* bytes that were read and not consumed, or written and not acknowledged */
    size_t n;
    size_t at;
    bool is_asked; /* a request to the guest is pending */
    bool is_waited_for;
    bool is_over;   /* read: the stream has ended; write: file_pipe_end was called */
    bool is_broken; /* write: the reader of the pipe is gone */
};

struct file_pipe {
    uv_poll_t poll;
    int fd;
    int events;
    /* Our own pipe, which carries the bytes where the guest's pipe does not support RWF_NOWAIT; -1:
     * not created yet. */
    int own[2];
    struct chunks chunks;
    void (*on_ready)(void *user);
    void *user;
};

static bool file_pipe_open_chunks(struct file_pipe *p, struct file_call *f) {
    p->chunks.bytes = malloc(CHUNK_BYTES);
    p->chunks.file = f;
    return p->chunks.bytes != NULL;
}

static bool file_pipe_open_fd(struct file_pipe *p, struct file_call *f,
                              const struct guest_answer *a) {
    if (uv_poll_init(file_call_env(f)->loop, &p->poll, a->fds[0]) < 0)
        return false;
    p->fd = TAKE_FD(a->fds[0]);
    p->poll.data = p;
    return true;
}

struct file_pipe *file_pipe_open(struct file_call *f, const struct guest_answer *a, int access,
                                 void (*on_ready)(void *user), void *user) {
    struct file_pipe *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->events = access == O_RDONLY ? UV_READABLE : UV_WRITABLE;
    p->own[0] = p->own[1] = -1;
    p->on_ready = on_ready;
    p->user = user;
    if (a->n_fds == 0 ? file_pipe_open_chunks(p, f) : file_pipe_open_fd(p, f, a))
        return p;
    free(p);
    return NULL;
}

static void on_closed(uv_handle_t *handle) {
    struct file_pipe *p = handle->data;
    close(p->fd);
    fd_close_all(p->own, 2);
    free(p);
}

void file_pipe_close(struct file_pipe *p) {
    if (p && p->chunks.file) {
        free(p->chunks.bytes);
        free(p);
    } else if (p && !uv_is_closing((uv_handle_t *)&p->poll)) {
        uv_close((uv_handle_t *)&p->poll, on_closed);
    }
}

/* --- chunks --- */

static void chunks_ask_read(struct chunks *c) {
    c->is_asked = true;
    file_call_ask(c->file, &(struct guest_file_request){
                               .method = GUEST_READ_CHUNK,
                               .handle = file_call_handle(c->file),
                               .read_chunk = {.offset = c->offset, .max_bytes = CHUNK_BYTES},
                           });
}

/* A chunk without bytes is the end of the stream. */
static void chunks_ask_write(struct chunks *c) {
    c->is_asked = true;
    file_call_ask(c->file,
                  &(struct guest_file_request){
                      .method = GUEST_WRITE_CHUNK,
                      .handle = file_call_handle(c->file),
                      .write_chunk = {.offset = c->offset,
                                      .data = {(const char *)c->bytes + c->at, c->n - c->at}},
                  });
}

static ssize_t chunks_read(struct chunks *c, void *out, size_t n) {
    n = MIN(n, c->n - c->at);
    if (n == 0)
        return c->is_over ? 0 : -EAGAIN;
    memcpy(out, c->bytes + c->at, n);
    c->at += n;
    return (ssize_t)n;
}

static ssize_t chunks_write(struct chunks *c, const void *bytes, size_t n) {
    if (c->is_broken)
        return -EPIPE;
    if (c->is_asked)
        return -EAGAIN;
    c->n = MIN(n, CHUNK_BYTES);
    c->at = 0;
    memcpy(c->bytes, bytes, c->n);
    chunks_ask_write(c);
    return (ssize_t)c->n;
}

static void chunks_take_read(struct chunks *c, const struct guest_file_answer *a) {
    c->n = a->read_chunk.data.n;
    memcpy(c->bytes, a->read_chunk.data.p, c->n);
    c->offset += c->n;
    c->at = 0;
    c->is_over = a->read_chunk.is_end;
}

static void chunks_take_write(struct chunks *c, const struct guest_file_answer *a) {
    c->offset += a->write_chunk.n_taken;
    c->at += a->write_chunk.n_taken;
    if (c->at < c->n)
        chunks_ask_write(c);
}

int file_pipe_answer(struct file_pipe *p, const struct guest_answer *a, struct err *e) {
    struct chunks *c = &p->chunks;
    bool was_end = c->at == c->n;
    c->is_asked = false;
    if (a->e && (p->events == UV_READABLE || a->e->code == ERR_GUEST_PROTOCOL)) {
        *e = *a->e;
        return -(int)e->code;
    }
    if (a->e)
        c->is_broken = true;
    else if (p->events == UV_READABLE)
        chunks_take_read(c, a->file);
    else
        chunks_take_write(c, a->file);
    if (p->events == UV_WRITABLE && c->is_over && !c->is_asked && !was_end && !c->is_broken)
        chunks_ask_write(c);
    if (!c->is_asked && c->is_waited_for) {
        c->is_waited_for = false;
        p->on_ready(p->user);
    }
    return 0;
}

struct file_pipe *file_pipe_end(struct file_pipe *p) {
    if (!p || !p->chunks.file) {
        file_pipe_close(p);
        return NULL;
    }
    struct chunks *c = &p->chunks;
    c->is_over = true;
    if (!c->is_asked && !c->is_broken)
        chunks_ask_write(c); /* if a request is pending, its answer leads to this call */
    return p;
}

/* --- both kinds --- */

/* Returns whether the pipe lacks RWF_NOWAIT, as pipes before Linux 6.4 and named FIFOs do, and
 * creates the helper pipe for it. O_NONBLOCK does not help, because the guest shares the flags of
 * the pipe. splice has its own non-blocking flag, but needs a second pipe that only the daemon
 * uses. */
static bool file_pipe_lacks_nowait(struct file_pipe *p, ssize_t r) {
    if (r >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
        return false;
    return pipe2(p->own, O_CLOEXEC | O_NONBLOCK) == 0;
}

/* Reads in a loop, because one read returns at most one packet of the pipe. */
static ssize_t file_pipe_read_through(struct file_pipe *p, uint8_t *out, size_t n) {
    ssize_t all = splice(p->fd, NULL, p->own[1], NULL, n, SPLICE_F_NONBLOCK);
    for (ssize_t at = 0, got; at < all; at += got) {
        got = read(p->own[0], out + at, (size_t)(all - at));
        if (got <= 0)
            return -1;
    }
    return all;
}

/* Writes through the helper pipe, and takes back the bytes that the guest's pipe did not accept. */
static ssize_t file_pipe_write_through(struct file_pipe *p, const void *bytes, size_t n) {
    uint8_t rest[4096];
    ssize_t all = write(p->own[1], bytes, MIN(n, OWN_BYTES));
    ssize_t taken =
        all < 0 ? all : splice(p->own[0], NULL, p->fd, NULL, (size_t)all, SPLICE_F_NONBLOCK);
    int why = errno;
    for (ssize_t left = all - MAX(taken, 0); left > 0;) {
        ssize_t got = read(p->own[0], rest, MIN((size_t)left, sizeof rest));
        if (got <= 0)
            return -1;
        left -= got;
    }
    errno = why;
    return taken;
}

ssize_t file_pipe_read(struct file_pipe *p, void *out, size_t n) {
    if (p->chunks.file)
        return chunks_read(&p->chunks, out, n);
    struct iovec to = {out, n};
    ssize_t r = p->own[0] >= 0 ? 0 : preadv2(p->fd, &to, 1, -1, RWF_NOWAIT);
    if (p->own[0] >= 0 || file_pipe_lacks_nowait(p, r))
        r = file_pipe_read_through(p, out, n);
    return r >= 0 ? r : errno == EINTR ? -EAGAIN : -errno;
}

ssize_t file_pipe_write(struct file_pipe *p, const void *bytes, size_t n) {
    if (p->chunks.file)
        return chunks_write(&p->chunks, bytes, n);
    struct iovec from = {(void *)bytes, n};
    ssize_t r = p->own[0] >= 0 ? 0 : pwritev2(p->fd, &from, 1, -1, RWF_NOWAIT);
    if (p->own[0] >= 0 || file_pipe_lacks_nowait(p, r))
        r = file_pipe_write_through(p, bytes, n);
    return r >= 0 ? r : errno == EINTR ? -EAGAIN : -errno;
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct file_pipe *p = poll->data;
    (void)status; /* the next read or write reports the error as well */
    (void)events;
    uv_poll_stop(poll);
    p->on_ready(p->user);
}

void file_pipe_wait(struct file_pipe *p) {
    if (p->chunks.file) {
        p->chunks.is_waited_for = true;
        if (p->events == UV_READABLE && !p->chunks.is_asked)
            chunks_ask_read(&p->chunks);
        return;
    }
    uv_poll_start(&p->poll, p->events, on_poll);
}
