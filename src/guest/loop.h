/* loop — the guest's one thread: descriptors that are ready, timers, and things freed at a turn's end.
 *
 * Time:   `now_ms` counts milliseconds the guest was awake. A sandbox that is frozen wakes up with at
 *         most a sixteenth of the nearest deadline and one second gone, however long it slept.
 * Events: a callback may remove any source and free any object through loop_free_later; memory stays
 *         until the turn ends, so an event that was already fetched finds a source with fd -1. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

struct source {
    int fd; /* -1: not in the loop */
    uint32_t events;
    void (*on_ready)(struct source *s, uint32_t events);
};

struct timer {
    struct list node;
    uint64_t due_ms;
    void (*on_due)(struct timer *t);
};

struct later {
    struct list node;
    void (*free)(struct later *l);
};

struct loop {
    int epoll;
    uint64_t now_ms;
    uint64_t last_us;  /* of the clock everyone shares */
    uint64_t slept_ms; /* what the last sleep was meant to take at most */
    struct list timers;
    struct list graves;
    bool stop;
};

MUST_USE int loop_init(struct loop *l);
/* Frees what waits for a turn's end. */
void loop_done(struct loop *l);
/* Calls on_turn after the events and timers of each turn, until stop is set. */
void loop_run(struct loop *l, void (*on_turn)(void *arg), void *arg);

/* The fd stays the caller's; loop_remove leaves it open and sets it to -1 here, returning it. */
MUST_USE int loop_add(struct loop *l, struct source *s, int fd, uint32_t events);
void loop_set(struct loop *l, struct source *s, uint32_t events);
int loop_remove(struct loop *l, struct source *s);

void timer_init(struct timer *t, void (*on_due)(struct timer *t));
void timer_start(struct loop *l, struct timer *t, uint64_t after_ms);
static inline void timer_stop(struct timer *t) {
    list_remove(&t->node);
}
static inline bool timer_is_set(const struct timer *t) {
    return !list_is_empty(&t->node);
}

void loop_free_later(struct loop *l, struct later *what, void (*free)(struct later *l));
