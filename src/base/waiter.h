/* waiter — one object waits until another one changes; a node inside the object that waits.
 *
 * The other object has a list of waiters. It wakes them after a change, and each looks for itself
 * what changed. Whichever side ends first takes the node out of the list. Inside on_wake you may
 * cancel any waiter, add waiters, and free the object that waits. */
#pragma once

#include "base/list.h"

struct waiter {
    struct list node;
    void (*on_wake)(struct waiter *w);
};

/* A zeroed waiter may be cancelled as well. */
void waiter_init(struct waiter *w, void (*on_wake)(struct waiter *w));
void waiter_add(struct list *waiters, struct waiter *w);
void waiter_cancel(struct waiter *w);
bool waiter_is_waiting(const struct waiter *w);

/* Both wake those that wait now, and not those that are added meanwhile. With waiters_wake each
 * stays in the list unless its on_wake cancels it, and the list must live until the last on_wake
 * has returned. With waiters_end each leaves the list first. */
void waiters_wake(struct list *waiters);
void waiters_end(struct list *waiters);
