#include "base/waiter.h"

void waiter_init(struct waiter *w, void (*on_wake)(struct waiter *w)) {
    list_init(&w->node);
    w->on_wake = on_wake;
}

void waiter_add(struct list *waiters, struct waiter *w) {
    list_push_back(waiters, &w->node);
}

void waiter_cancel(struct waiter *w) {
    if (w->node.next)
        list_remove(&w->node);
}

/* Moves the waiters to a separate list before they are woken, so that an on_wake may remove any of
 * them. */
static void waiters_move(struct list *from, struct list *to) {
    list_init(to);
    for (struct list *node; (node = list_pop_front(from));)
        list_push_back(to, node);
}

void waiters_wake(struct list *waiters) {
    struct list pending;
    waiters_move(waiters, &pending);
    for (struct list *node; (node = list_pop_front(&pending));) {
        list_push_back(waiters, node);
        struct waiter *w = container_of(node, struct waiter, node);
        w->on_wake(w);
    }
}

void waiters_end(struct list *waiters) {
    struct list pending;
    waiters_move(waiters, &pending);
    for (struct list *node; (node = list_pop_front(&pending));) {
        struct waiter *w = container_of(node, struct waiter, node);
        w->on_wake(w);
    }
}

bool waiter_is_waiting(const struct waiter *w) {
    return w->node.next && !list_is_empty(&w->node);
}
