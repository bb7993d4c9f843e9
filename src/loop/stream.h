/* stream — a connected socket as bytes both ways.
 *
 * Owner:   the connection that embeds it.      Ends: on_closed, exactly once, last.
 * Reading: on_bytes borrows the bytes for the call's duration.
 * Writing: one block at a time. stream_block lends an empty block, stream_send hands it over; while
 *          the kernel has not taken it all, stream_is_busy, and on_drained says when it has.
 *          So a peer that does not read costs one block, with what is behind it, and no more.
 *          What lies elsewhere is sent from there; only what the kernel leaves of it is copied.
 * Inside any callback you may call stream_close; after it no callback but on_closed comes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/gather.h"
#include "base/macros.h"

/* More at once would not stay in the processor's cache. */
#define STREAM_BLOCK_BYTES ((size_t)128 * 1024)
/* Behind it, for holes alone: a chunk of a file, 256 KiB, fits in one frame. */
#define STREAM_BEYOND_BYTES ((size_t)136 * 1024)

/* As much as a Unix socket holds: emptied at once, it fills again while what was read is worked on. */
#define STREAM_READ_BYTES ((size_t)512 * 1024)

struct stream;

/* Blocks that no stream uses now, and the block that reads go into; one per loop. */
struct stream_pool {
    uint8_t *spare;
    uint8_t *read_block;
};

MUST_USE int stream_pool_init(struct stream_pool *pool);
void stream_pool_done(struct stream_pool *pool);

struct stream_events {
    void (*on_bytes)(struct stream *s, const uint8_t *bytes, size_t n);
    void (*on_drained)(struct stream *s);
    void (*on_gone)(struct stream *s, int why); /* UV_EOF or -errno; the owner closes */
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
    uint8_t *block; /* ours while it is lent or being written */
    bool writing;
    bool closing;
};

/* After a successful init the only way out is stream_close. */
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
/* An empty block of STREAM_BLOCK_BYTES, or NULL when memory is short. Not while busy. */
MUST_USE uint8_t *stream_block(struct stream *s);
/* Sends the first n bytes of the lent block, with its holes, which are none afterwards; 0 gives it back unused.
 * -errno: the owner closes. */
MUST_USE int stream_send(struct stream *s, size_t n, struct gather_list *holes);
