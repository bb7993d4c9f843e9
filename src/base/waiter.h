/* waiter — lets one object wait until another one changes. The node is inside the waiting object.
 *
 * Owner:   the waiting object. The other object has a list of waiters.
 * End:     waiter_cancel, or waiters_end; whichever side ends first unlinks the node.
 * The other object wakes its waiters after a change, and each waiter checks what changed.
 * Inside on_wake you may cancel any waiter, add waiters, and free the waiting object. */
#pragma once

#include "base/list.h"

struct waiter {
    struct list node;
    void (*on_wake)(struct waiter *w);
};

/* Initialises a waiter. waiter_cancel and waiter_is_waiting also accept a waiter that is only
 * zeroed. */
void waiter_init(struct waiter *w, void (*on_wake)(struct waiter *w));
void waiter_add(struct list *waiters, struct waiter *w);
void waiter_cancel(struct waiter *w);
bool waiter_is_waiting(const struct waiter *w);

/* Both functions wake the current waiters, but not waiters that an on_wake adds. With waiters_wake,
 * a waiter stays in the list unless its on_wake cancels it, and the list must stay valid until the
 * last on_wake has returned. With waiters_end, each waiter leaves the list before its on_wake. */
void waiters_wake(struct list *waiters);
void waiters_end(struct list *waiters);
