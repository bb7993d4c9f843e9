/* change — who makes a change, and under which request id; borrowed for the call. */
#pragma once

#include "core/caller.h"
#include "core/ledger.h"

struct change {
    const struct caller *who;      /* NULL: the daemon itself */
    const struct request_key *key; /* NULL or with an empty request_id: nothing is remembered */
    struct ledger_wait *wait;
    int cause;           /* StateCause; 0 = REQUESTED */
    const struct err *e; /* what caused it; NULL = nothing */
};

/* Sets the error of a change that the store does not take. */
static inline int change_refused(struct err *e) {
    return err_set(e, ERR_STORE_FAILED, "the store takes no change at this moment");
}
