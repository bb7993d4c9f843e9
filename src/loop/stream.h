/* stream — a connected socket that carries bytes in both directions.
 *
 * Owner:   the connection that embeds it.      End: on_closed, exactly once, as the last callback.
 * States:  open → closing. While open, idle or busy (a block is being written).
 * Reading: on_bytes borrows the bytes for the duration of the callback.
 * Writing: one block at a time. stream_block lends an empty block, and stream_send takes it back.
 *          The stream is busy until the kernel has accepted all bytes; then on_drained fires.
 *          The kernel reads gather parts in place; stream_send copies only those it did not accept.
 * Bounds:  one block per stream, so a peer that does not read costs no more memory than that.
 * Errors:  on_gone with UV_EOF or -errno; the owner then calls stream_close.
 * Inside any callback you may call stream_close; afterwards only on_closed fires. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/gather.h"
#include "base/macros.h"

/* A larger block would not fit into the processor's cache. */
#define STREAM_BLOCK_BYTES ((size_t)128 * 1024)
/* Extra space after the block, for gather parts only, so that a 256 KiB file chunk fits in one
 * frame. */
#define STREAM_BEYOND_BYTES ((size_t)136 * 1024)

/* As much as a Unix socket buffers: one read empties the socket, and the peer refills it while we
 * process the bytes. */
#define STREAM_READ_BYTES ((size_t)512 * 1024)

struct stream;

/* Shared by all streams of a loop: an unused block, and the block for reads. */
struct stream_pool {
    uint8_t *spare;
    uint8_t *read_block;
};

MUST_USE int stream_pool_init(struct stream_pool *pool);
void stream_pool_done(struct stream_pool *pool);

struct stream_events {
    void (*on_bytes)(struct stream *s, const uint8_t *bytes, size_t n);
    void (*on_drained)(struct stream *s);
    void (*on_gone)(struct stream *s, int why); /* UV_EOF or -errno; the owner closes the stream */
    void (*on_closed)(struct stream *s);
};

struct stream {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    uv_write_t write;
    const struct stream_events *events;
    struct stream_pool *pool;
    uint8_t *block; /* set from stream_block until its bytes are written; otherwise NULL */
    bool writing;
    bool closing;
};

/* After a successful init, end the stream with stream_close. */
MUST_USE int stream_init_pipe(struct stream *s, uv_loop_t *loop, struct stream_pool *pool,
                              const struct stream_events *events);
MUST_USE int stream_init_tcp(struct stream *s, uv_loop_t *loop, struct stream_pool *pool,
                             const struct stream_events *events);
void stream_close(struct stream *s);

MUST_USE int stream_read_start(struct stream *s);
int stream_fd(const struct stream *s);

static inline bool stream_is_busy(const struct stream *s) {
    return s->writing;
}
/* Returns an empty block of STREAM_BLOCK_BYTES, or NULL when out of memory. Do not call while
 * busy. */
MUST_USE uint8_t *stream_block(struct stream *s);
/* Sends the first n bytes of the lent block with its gather parts, and empties the gather list. n =
 * 0 returns the block unused. On -errno the owner must close the stream. */
MUST_USE int stream_send(struct stream *s, size_t n, struct gather_list *gather);
