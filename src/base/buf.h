/* buf — a byte queue with a fixed maximum: append at the tail, consume at the head.
 *
 * Bounds:  at most max_bytes, set by buf_init. An append past it fails with -ENOBUFS and changes
 *          nothing.
 * Memory:  the block doubles as needed. buf_done frees it. An empty buffer keeps its block until
 *          buf_trim. */
#pragma once

#include <stdint.h>
#include <stddef.h>

#include "base/macros.h"

struct buf {
    uint8_t *block;
    size_t head; /* first byte not yet consumed */
    size_t tail; /* one past the last byte */
    size_t cap;
    size_t max_bytes;
};

void buf_init(struct buf *b, size_t max_bytes);
void buf_done(struct buf *b);

static inline size_t buf_len(const struct buf *b) {
    return b->tail - b->head;
}
static inline uint8_t *buf_data(const struct buf *b) {
    return b->block + b->head;
}
static inline size_t buf_available(const struct buf *b) {
    return b->max_bytes - buf_len(b);
}

/* Reserves n bytes at the tail and returns their address. Write there, then call buf_commit. Fails
 * with -ENOBUFS past the maximum, or -ENOMEM. */
MUST_USE int buf_reserve(struct buf *b, size_t n, uint8_t **ret_at);
void buf_commit(struct buf *b, size_t n);
MUST_USE int buf_append(struct buf *b, const void *bytes, size_t n);

void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/* Keeps the first n bytes and drops the rest. */
void buf_truncate(struct buf *b, size_t n);
/* Frees the block if the buffer is empty. */
void buf_trim(struct buf *b);
