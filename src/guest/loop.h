/* loop — the single-threaded event loop of the guest: descriptors, timers, and deferred frees.
 *
 * Owner:  the guest. A source, timer or later belongs to the object that embeds it.
 * Time:   `now_ms` counts the milliseconds that the guest was awake. However long a sandbox was frozen, its
 *         clock advances by at most one second plus a sixteenth of the time to the nearest deadline.
 * A callback may add, change and remove any source, start and stop any timer, and free any object through
 * loop_free_later. Memory stays valid until the turn ends, so an event that was fetched earlier in the turn
 * finds a source whose fd is -1. */
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
    uint64_t last_us;  /* monotonic time of the last update */
    uint64_t slept_ms; /* upper bound of the last epoll_wait */
    struct list timers;
    struct list graves;
    bool stop;
};

MUST_USE int loop_init(struct loop *l);
/* Frees objects that wait for the end of the turn, and closes the loop. */
void loop_done(struct loop *l);
/* Runs until l->stop is set. Calls on_turn after the events and timers of each turn. */
void loop_run(struct loop *l, void (*on_turn)(void *arg), void *arg);

/* The caller keeps ownership of the fd. loop_remove sets s->fd to -1 and returns the fd, which
 * stays open. Fails with -errno. */
MUST_USE int loop_add(struct loop *l, struct source *s, int fd, uint32_t events);
void loop_set(struct loop *l, struct source *s, uint32_t events);
int loop_remove(struct loop *l, struct source *s);

/* Starting a running timer restarts it. on_due runs once per start. */
void timer_init(struct timer *t, void (*on_due)(struct timer *t));
void timer_start(struct loop *l, struct timer *t, uint64_t after_ms);
static inline void timer_stop(struct timer *t) {
    list_remove(&t->node);
}

/* Calls `free` at the end of the turn. */
void loop_free_later(struct loop *l, struct later *what, void (*free)(struct later *l));
