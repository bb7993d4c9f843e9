#include "loop/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int stream_pool_init(struct stream_pool *pool) {
    *pool = (struct stream_pool){.read_block = malloc(STREAM_READ_BYTES)};
    return pool->read_block ? 0 : -ENOMEM;
}

void stream_pool_done(struct stream_pool *pool) {
    free(pool->spare);
    free(pool->read_block);
    *pool = (struct stream_pool){0};
}

static int stream_init_done(struct stream *s, int r, struct stream_pool *pool,
                            const struct stream_events *events) {
    if (r < 0)
        return r;
    s->uv.handle.data = s;
    s->write.data = s;
    s->events = events;
    s->pool = pool;
    s->block = NULL;
    s->writing = s->closing = false;
    return 0;
}

int stream_init_pipe(struct stream *s, uv_loop_t *loop, struct stream_pool *pool,
                     const struct stream_events *events) {
    return stream_init_done(s, uv_pipe_init(loop, &s->uv.pipe, 0), pool, events);
}

int stream_init_tcp(struct stream *s, uv_loop_t *loop, struct stream_pool *pool,
                    const struct stream_events *events) {
    return stream_init_done(s, uv_tcp_init(loop, &s->uv.tcp), pool, events);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf) {
    (void)suggested;
    struct stream *s = handle->data;
    *buf = uv_buf_init((char *)s->pool->read_block, STREAM_READ_BYTES);
}

static void on_read(uv_stream_t *handle, ssize_t n, const uv_buf_t *buf) {
    struct stream *s = handle->data;
    if (n > 0)
        s->events->on_bytes(s, (const uint8_t *)buf->base, (size_t)n);
    else if (n < 0 && !s->closing)
        s->events->on_gone(s, (int)n);
}

int stream_read_start(struct stream *s) {
    /* Ask for a send buffer of two blocks, so that we can write one while the peer reads the other.
     * The default does not fit even one block. If the kernel refuses, sending is only slower. */
    int bytes = 2 * (int)(STREAM_BLOCK_BYTES + STREAM_BEYOND_BYTES);
    uv_send_buffer_size(&s->uv.handle, &bytes);
    return uv_read_start(&s->uv.stream, on_alloc, on_read);
}

int stream_fd(const struct stream *s) {
    uv_os_fd_t fd;
    return uv_fileno(&s->uv.handle, &fd) == 0 ? fd : -1;
}

static void stream_block_return(struct stream *s) {
    if (s->pool->spare)
        free(s->block);
    else
        s->pool->spare = s->block;
    s->block = NULL;
}

uint8_t *stream_block(struct stream *s) {
    assert(!s->writing);
    if (!s->block) {
        s->block =
            s->pool->spare ? s->pool->spare : malloc(STREAM_BLOCK_BYTES + STREAM_BEYOND_BYTES);
        s->pool->spare = NULL;
    }
    return s->block;
}

static void on_written(uv_write_t *req, int status) {
    struct stream *s = req->data;
    s->writing = false;
    stream_block_return(s);
    if (s->closing)
        return;
    if (status < 0)
        s->events->on_gone(s, status);
    else
        s->events->on_drained(s);
}

/* Fills `out` with the parts of the block and of the gather list, in order. */
static unsigned stream_gather(const struct stream *s, size_t n, const struct gather_list *gather,
                              uv_buf_t *out) {
    unsigned count = 0;
    uint8_t *at = s->block;
    for (const struct gather_part *part = gather->list; part < gather->list + gather->n; part++) {
        out[count++] = uv_buf_init((char *)at, (unsigned)(part->at - at));
        out[count++] = uv_buf_init((char *)part->bytes, (unsigned)part->n);
        at = part->at + part->n;
    }
    out[count++] = uv_buf_init((char *)at, (unsigned)(s->block + n - at));
    return count;
}

/* The kernel usually accepts everything immediately; only the rest waits for the loop. */
int stream_send(struct stream *s, size_t n, struct gather_list *gather) {
    uv_buf_t all[2 * GATHER_MAX + 1];
    assert(n <= STREAM_BLOCK_BYTES + STREAM_BEYOND_BYTES);
    int taken = n > 0 ? uv_try_write(&s->uv.stream, all, stream_gather(s, n, gather, all)) : 0;
    if (taken == (int)n || (taken < 0 && taken != UV_EAGAIN)) {
        gather->n = 0;
        stream_block_return(s);
        return taken < 0 ? taken : 0;
    }
    uint8_t *rest = s->block + MAX(taken, 0);
    gather_copy(gather, rest);
    uv_buf_t waiting = uv_buf_init((char *)rest, (unsigned)(s->block + n - rest));
    int r = uv_write(&s->write, &s->uv.stream, &waiting, 1, on_written);
    if (r < 0)
        stream_block_return(s);
    s->writing = r == 0;
    return r;
}

static void on_handle_closed(uv_handle_t *handle) {
    struct stream *s = handle->data;
    if (s->block)
        stream_block_return(s);
    s->events->on_closed(s);
}

void stream_close(struct stream *s) {
    if (s->closing)
        return;
    s->closing = true;
    uv_close(&s->uv.handle, on_handle_closed);
}
