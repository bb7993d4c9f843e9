#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

void buf_init(struct buf *b, size_t max_bytes) {
    *b = (struct buf){.max_bytes = max_bytes};
}

void buf_done(struct buf *b) {
    free(b->block);
    *b = (struct buf){.max_bytes = b->max_bytes};
}

int buf_reserve(struct buf *b, size_t n, uint8_t **ret_at) {
    size_t len = buf_len(b);
    if (n > b->max_bytes - len)
        return -ENOBUFS;
    if (n > b->cap - b->tail && b->head > 0) {
        memmove(b->block, b->block + b->head, len);
        b->head = 0;
        b->tail = len;
    }
    if (n > b->cap - b->tail) {
        size_t want = MAX(len + n, MIN(b->cap * 2, b->max_bytes));
        uint8_t *grown = realloc(b->block, MAX(want, (size_t)64));
        if (!grown)
            return -ENOMEM;
        b->block = grown;
        b->cap = MAX(want, (size_t)64);
    }
    *ret_at = b->block + b->tail;
    return 0;
}

void buf_commit(struct buf *b, size_t n) {
    assert(n <= b->cap - b->tail);
    b->tail += n;
}

int buf_append(struct buf *b, const void *bytes, size_t n) {
    if (n == 0)
        return 0;
    uint8_t *at;
    int r = buf_reserve(b, n, &at);
    if (r < 0)
        return r;
    memcpy(at, bytes, n);
    b->tail += n;
    return 0;
}

void buf_consume(struct buf *b, size_t n) {
    assert(n <= buf_len(b));
    b->head += n;
    if (b->head == b->tail)
        b->head = b->tail = 0;
}

void buf_clear(struct buf *b) {
    b->head = b->tail = 0;
}

void buf_truncate(struct buf *b, size_t n) {
    assert(n <= buf_len(b));
    b->tail = b->head + n;
}

void buf_trim(struct buf *b) {
    if (buf_len(b) == 0)
        buf_done(b);
}
