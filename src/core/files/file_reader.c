#include "core/files/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/fd.h"

/* A window is as large as four messages, because every window wakes a thread and the loop once. */
#define WINDOW_BYTES ((uint64_t)1 << 20)
/* The loop reads files up to this size directly, which is faster than using a thread. */
#define SMALL_BYTES ((uint64_t)64 << 10)

struct file_reader {
    struct file_work work;
    int fd;
    uint64_t at; /* offset of the next byte to read */
    uint64_t end;
    uint64_t near;  /* offset of the first byte that may be uncached */
    uint64_t until; /* `near` after the running prefetch; the thread owns it while is_waiting */
    int result;     /* result of the prefetch; the thread owns it while is_waiting */
    int failure;    /* -errno of the first failure */
    bool is_waiting;
    bool is_awaited; /* the caller waits for on_ready */
    bool is_closed;
    void (*on_ready)(void *user);
    void *user;
};

static void on_work(struct file_work *work);
static void on_near(struct file_work *work);

struct file_reader *file_reader_open(struct file_turns *turns, int fd_take, struct file_range range,
                                     void (*on_ready)(void *user), void *user) {
    struct file_reader *r = calloc(1, sizeof *r);
    if (!r) {
        close(fd_take);
        return NULL;
    }
    r->work = (struct file_work){.turns = turns, .run = on_work, .on_done = on_near};
    r->fd = fd_take;
    r->at = range.offset;
    r->end = range.end;
    r->near = range.known <= range.offset + SMALL_BYTES ? range.end : range.offset;
    r->on_ready = on_ready;
    r->user = user;
    return r;
}

static void reader_free(struct file_reader *r) {
    close(r->fd);
    free(r);
}

void file_reader_close(struct file_reader *r) {
    if (r && r->is_waiting && !file_work_cancel(&r->work))
        r->is_closed = true;
    else if (r)
        reader_free(r);
}

/* Sending the pages to /dev/null loads them without a copy. Where sendfile fails (-EINVAL: this
 * filesystem lacks it; -EOVERFLOW: the offset is too large; no descriptor is free) the loop reads
 * without prefetching. */
static int reader_prefetch(int fd, uint64_t from, uint64_t until) {
    AUTO_CLOSE int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    off_t at = (off_t)from;
    while (nowhere >= 0 && (uint64_t)at < until) {
        ssize_t n = sendfile(nowhere, fd, &at, (size_t)(until - (uint64_t)at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0 || errno == EINVAL || errno == EOVERFLOW ? 0 : -errno;
    }
    return 0;
}

static void on_work(struct file_work *work) {
    struct file_reader *r = container_of(work, struct file_reader, work);
    failpoint_file_hold();
    r->result = reader_prefetch(r->fd, r->near, r->until);
}

static void on_near(struct file_work *work) {
    struct file_reader *r = container_of(work, struct file_reader, work);
    r->is_waiting = false;
    r->near = r->until;
    r->failure = r->result;
    bool is_awaited = r->is_awaited;
    r->is_awaited = false;
    if (r->is_closed)
        reader_free(r);
    else if (is_awaited)
        r->on_ready(r->user); /* on_ready may close the reader */
}

static void reader_prefetch_next(struct file_reader *r) {
    if (r->is_waiting || r->near == r->end || r->near > r->at + WINDOW_BYTES)
        return;
    r->until = r->near + MIN(WINDOW_BYTES, r->end - r->near);
    r->is_waiting = true;
    file_work_start(&r->work);
}

ssize_t file_reader_read(struct file_reader *r, uint8_t *into, size_t n) {
    ssize_t got;
    if (r->failure < 0)
        return r->failure;
    reader_prefetch_next(r);
    if (r->at == r->near && r->at < r->end) {
        r->is_awaited = true;
        return -EAGAIN;
    }
    n = (size_t)MIN(r->near - r->at, (uint64_t)n);
    do
        got = pread(r->fd, into, n, (off_t)r->at);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN
                   ? -EIO
                   : -errno; /* an EAGAIN of the disk would make the caller wait forever */
    r->at += (uint64_t)got;
    return got;
}
