/* outbox — the pending output of a connection: frames in order, one of which may have its body
 * elsewhere. The body is lent and sent from its own memory, because copying it would be most of the
 * cost of a large request. The body of a file is in the page cache, referenced by a pipe, and goes
 * to the socket without a copy.
 *
 * Owner:  the connection.         Bounds: those of `bytes`; one lent body at a time. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* Bytes in memory, followed by bytes in a pipe. */
struct loan {
    const uint8_t *bytes;
    size_t n;
    int pipe;
    size_t n_piped;
};

static inline size_t loan_len(const struct loan *l) {
    return l->n + l->n_piped;
}
/* Splits off the first n bytes. */
static inline struct loan loan_cut(struct loan *l, size_t n) {
    size_t in_memory = MIN(n, l->n);
    struct loan first = {l->bytes, in_memory, l->pipe, n - in_memory};
    l->bytes += in_memory;
    l->n -= in_memory;
    l->n_piped -= first.n_piped;
    return first;
}

struct outbox {
    struct buf bytes;
    struct loan lent;
    size_t lent_at; /* number of bytes in `bytes` that are sent before `lent` */
    size_t *owed;   /* the lender's count of bytes it must not touch; NULL: nothing is lent */
};

static inline bool outbox_is_empty(const struct outbox *o) {
    return !o->owed && buf_len(&o->bytes) == 0;
}
/* Queues these bytes. *owed is their count until they are sent or copied, then 0. */
void outbox_lend(struct outbox *o, struct loan lent, size_t *owed);
/* Sends what the socket accepts now. Returns the count or -errno. */
MUST_USE ssize_t outbox_send(struct outbox *o, int fd);
/* Copies the rest, because the lender ends. Fails with -ENOMEM, -ENOBUFS, or -EIO when the pipe has
 * less. */
MUST_USE int outbox_keep(struct outbox *o);
void outbox_clear(struct outbox *o);
