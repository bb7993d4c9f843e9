/* outbox — what waits to go out on a connection: frames in order, one of which may have its body elsewhere. That
 * is lent and sent from where it lies, for a copy of every byte is what a large request costs most.
 *
 * Owner:  the connection.         Bounds: those of `bytes`; one lent body at a time. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"

struct outbox {
    struct buf bytes;
    const uint8_t *lent;
    size_t n_lent;
    size_t lent_at; /* how many of `bytes` go before it */
    size_t *owed;   /* the lender's count of what it may not touch; NULL: nothing is lent */
};

static inline bool outbox_is_empty(const struct outbox *o) {
    return !o->owed && buf_len(&o->bytes) == 0;
}
/* The n bytes follow what waits. *owed is n until they are sent or kept, then 0. */
void outbox_lend(struct outbox *o, const uint8_t *lent, size_t n, size_t *owed);
/* What the socket takes at once: the count, or -errno. */
MUST_USE ssize_t outbox_send(struct outbox *o, int fd);
/* The lender goes: the rest is copied. -ENOMEM, -ENOBUFS. */
MUST_USE int outbox_keep(struct outbox *o);
void outbox_clear(struct outbox *o);
