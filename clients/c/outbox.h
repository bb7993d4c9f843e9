/* outbox — what waits to go out on a connection: frames in order, one of which may have its body elsewhere. That
 * is lent and sent from where it lies, for a copy of every byte is what a large request costs most. Of a file it
 * lies in the page cache, and a pipe holds it: from there to the socket nothing is copied at all.
 *
 * Owner:  the connection.         Bounds: those of `bytes`; one lent body at a time. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

/* Bytes in memory, then as many as are said out of a pipe that has them. */
struct loan {
    const uint8_t *bytes;
    size_t n;
    int pipe;
    size_t n_piped;
};

static inline size_t loan_len(const struct loan *l) {
    return l->n + l->n_piped;
}
/* The first n bytes; what is left is the rest. */
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
    size_t lent_at; /* how many of `bytes` go before it */
    size_t *owed;   /* the lender's count of what it may not touch; NULL: nothing is lent */
};

static inline bool outbox_is_empty(const struct outbox *o) {
    return !o->owed && buf_len(&o->bytes) == 0;
}
/* These bytes follow what waits. *owed is their count until they are sent or kept, then 0. */
void outbox_lend(struct outbox *o, struct loan lent, size_t *owed);
/* What the socket takes at once: the count, or -errno. */
MUST_USE ssize_t outbox_send(struct outbox *o, int fd);
/* The lender goes: the rest is copied. -ENOMEM, -ENOBUFS; -EIO when the pipe has less. */
MUST_USE int outbox_keep(struct outbox *o);
void outbox_clear(struct outbox *o);
