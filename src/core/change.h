/* change — the caller, request id and cause of a change. A function that takes a change borrows it
 * until the function returns. */
#pragma once

#include "core/caller.h"
#include "core/ledger.h"

struct change {
    const struct caller *who;      /* NULL: the daemon itself makes the change */
    const struct request_key *key; /* NULL or an empty request_id: the request id is not stored */
    struct ledger_wait *wait;      /* NULL: nobody waits for the commit */
    int cause;                     /* StateCause; 0 = REQUESTED */
    const struct err *e;           /* the error that caused the change; NULL: none */
};

/* Sets the error of a change when ledger_begin returns NULL. */
static inline int change_refused(struct err *e) {
    return err_set(e, ERR_STORE_FAILED, "the store does not accept changes now");
}
