/* outbox — the pending output of a connection: frames in order. One of the frames may have its body
 * outside of the outbox: the caller lends the body, and the outbox sends it from the caller's
 * memory, because copying it would be most of the cost of a large request. When the body comes from
 * a file, a pipe references its pages in the page cache, and splice sends them without a copy.
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
    size_t *owed; /* count that the lender reads: lent bytes not yet sent; NULL: nothing is lent */
};

static inline bool outbox_is_empty(const struct outbox *o) {
    return !o->owed && buf_len(&o->bytes) == 0;
}
/* Queues the lent bytes. Sets *owed to their count, and to 0 once all are sent or copied. */
void outbox_lend(struct outbox *o, struct loan lent, size_t *owed);
/* Sends as many bytes as the socket accepts now. Returns their count or -errno. */
MUST_USE ssize_t outbox_send(struct outbox *o, int fd);
/* Copies the unsent lent bytes into the outbox, so that the lender can be freed. Fails with
 * -ENOMEM, -ENOBUFS, or -EIO when the pipe has fewer bytes than were lent. */
MUST_USE int outbox_keep(struct outbox *o);
void outbox_clear(struct outbox *o);
