#include "core/imports/copy_feed.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

#define CHUNK_BYTES ((size_t)GUEST_CHUNK_BYTES)

struct copy_feed {
    uv_poll_t poll;
    int fd; /* -1: the feed reads no more */
    struct guest_link *link;
    struct guest_wait wait;
    uint64_t handle;
    uint64_t offset; /* offset of the first byte that the guest has not accepted */
    size_t n, at;    /* number of bytes in `bytes`, and how many of them the guest has accepted */
    uint8_t bytes[CHUNK_BYTES];
};

static void feed_stop_reading(struct copy_feed *f) {
    uv_poll_stop(&f->poll);
    if (f->fd >= 0)
        close(TAKE_FD(f->fd));
}

/* An empty chunk marks the end of the stream. */
static void feed_send_chunk(struct copy_feed *f) {
    struct str chunk = {(const char *)f->bytes + f->at, f->n - f->at};
    guest_files_ask(f->link,
                    &(struct guest_file_request){.method = GUEST_WRITE_CHUNK,
                                                 .handle = f->handle,
                                                 .write_chunk = {f->offset, chunk}},
                    &f->wait);
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    struct copy_feed *f = poll->data;
    (void)events;
    ssize_t n = status < 0 ? 0 : read(f->fd, f->bytes, sizeof f->bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    f->at = 0;
    f->n = n > 0 ? (size_t)n : 0;
    if (n > 0)
        uv_poll_stop(poll);
    else
        feed_stop_reading(f); /* the guest detects a truncated archive by its missing end */
    feed_send_chunk(f);
}

static void on_taken(struct guest_wait *w, const struct guest_answer *a) {
    struct copy_feed *f = container_of(w, struct copy_feed, wait);
    if (a->e) {
        feed_stop_reading(f);
        return;
    }
    f->offset += a->file->write_chunk.n_taken;
    f->at += a->file->write_chunk.n_taken;
    if (f->at < f->n)
        feed_send_chunk(f);
    else if (f->fd >= 0)
        uv_poll_start(&f->poll, UV_READABLE, on_readable);
}

int copy_feed_new(uv_loop_t *loop, struct guest_link *link, uint64_t handle,
                  struct copy_feed **ret_feed, int *ret_write_fd, struct err *e) {
    int fds[2] = {-1, -1};
    struct copy_feed *f = calloc(1, sizeof *f);
    if (!f || pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ||
        uv_poll_init(loop, &f->poll, fds[0]) < 0) {
        fd_close_all(fds, fds[0] < 0 ? 0 : 2);
        free(f);
        return err_set(e, ERR_LIMIT_REACHED, "cannot create a pipe for the copy");
    }
    f->poll.data = f;
    f->fd = fds[0];
    f->link = link;
    f->handle = handle;
    guest_wait_init(&f->wait, on_taken);
    uv_poll_start(&f->poll, UV_READABLE, on_readable);
    *ret_feed = f;
    *ret_write_fd = fds[1];
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void copy_feed_close(struct copy_feed *f) {
    if (!f)
        return;
    guest_wait_cancel(&f->wait);
    feed_stop_reading(f);
    uv_close((uv_handle_t *)&f->poll, on_closed);
}
