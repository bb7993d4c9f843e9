#include "core/files/file_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"

/* A piece is as large as one socket read, which is two messages of most clients. */
#define PIECE_BYTES ((size_t)512 << 10)
#define USUAL_BYTES ((size_t)256 << 10)
/* The loop writes the first bytes of every file directly, which is faster than using a thread. */
#define SMALL_BYTES ((size_t)64 << 10)

struct piece {
    uint8_t *bytes; /* PIECE_BYTES, allocated at first use */
    size_t n;
};

struct file_writer {
    struct file_work work;
    int fd;
    uint64_t offset;      /* offset of the next byte to write */
    struct piece writing; /* the thread owns this and `result` while is_writing */
    struct piece filling; /* always empty unless is_writing */
    int result;
    int failure; /* -errno of the first failure */
    bool is_writing;
    bool is_awaited; /* the caller waits for on_ready */
    bool is_closed;
    void (*on_ready)(void *user);
    void *user;
};

static void on_work(struct file_work *work);
static void on_written(struct file_work *work);

struct file_writer *file_writer_open(struct file_turns *turns, int fd_take,
                                     void (*on_ready)(void *user), void *user) {
    struct file_writer *w = calloc(1, sizeof *w);
    if (!w) {
        close(fd_take);
        return NULL;
    }
    w->work = (struct file_work){.turns = turns, .run = on_work, .on_done = on_written};
    w->fd = fd_take;
    w->on_ready = on_ready;
    w->user = user;
    return w;
}

static void writer_free(struct file_writer *w) {
    close(w->fd);
    free(w->writing.bytes);
    free(w->filling.bytes);
    free(w);
}

void file_writer_close(struct file_writer *w) {
    if (w && w->is_writing && !file_work_cancel(&w->work))
        w->is_closed = true;
    else if (w)
        writer_free(w);
}

static int writer_write_all(int fd, const uint8_t *bytes, size_t n, uint64_t offset) {
    for (size_t at = 0; at < n;) {
        ssize_t r = pwrite(fd, bytes + at, n - at, (off_t)(offset + at));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EIO;
        at += (size_t)r;
    }
    return 0;
}

static void on_work(struct file_work *work) {
    struct file_writer *w = container_of(work, struct file_writer, work);
    failpoint_file_hold();
    w->result = writer_write_all(w->fd, w->writing.bytes, w->writing.n, w->offset);
}

static void writer_start(struct file_writer *w) {
    struct piece empty = {.bytes = w->writing.bytes};
    w->writing = w->filling;
    w->filling = empty;
    w->is_writing = true;
    file_work_start(&w->work);
}

static void on_written(struct file_work *work) {
    struct file_writer *w = container_of(work, struct file_writer, work);
    w->is_writing = false;
    w->failure = w->result;
    w->offset += w->writing.n;
    if (w->is_closed) {
        writer_free(w);
        return;
    }
    if (w->failure == 0 && w->filling.n > 0)
        writer_start(w);
    bool is_awaited = w->is_awaited;
    w->is_awaited = false;
    if (is_awaited)
        w->on_ready(w->user); /* on_ready may close the writer */
}

static int writer_wait(struct file_writer *w) {
    w->is_awaited = true;
    return -EAGAIN;
}

static int writer_write_small(struct file_writer *w, const uint8_t *bytes, size_t n) {
    w->failure = writer_write_all(w->fd, bytes, n, w->offset);
    w->offset += n;
    return w->failure;
}

ssize_t file_writer_write(struct file_writer *w, const uint8_t *bytes, size_t n) {
    struct piece *p = &w->filling;
    if (w->failure < 0)
        return w->failure;
    if (!w->is_writing && n <= SMALL_BYTES && w->offset <= SMALL_BYTES - n)
        return writer_write_small(w, bytes, n) < 0 ? w->failure : (ssize_t)n;
    n = MIN(n, PIECE_BYTES - p->n);
    if (n == 0)
        return writer_wait(w);
    if (!p->bytes && !(p->bytes = malloc(PIECE_BYTES)))
        return w->failure = -ENOMEM;
    memcpy(p->bytes + p->n, bytes, n);
    p->n += n;
    if (!w->is_writing)
        writer_start(w);
    return (ssize_t)n;
}

bool file_writer_is_writable(struct file_writer *w) {
    if (!w->is_writing || PIECE_BYTES - w->filling.n >= USUAL_BYTES)
        return true;
    w->is_awaited = true;
    return false;
}

int file_writer_flush(struct file_writer *w) {
    return w->failure < 0 ? w->failure : w->is_writing ? writer_wait(w) : 0;
}
