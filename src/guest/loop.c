#include "guest/loop.h"

#include <errno.h>

#include "base/clock.h"

#define EVENTS_PER_TURN 64
#define SLACK_MS 1000

int loop_init(struct loop *l) {
    *l = (struct loop){.epoll = epoll_create1(EPOLL_CLOEXEC), .last_us = clock_us()};
    list_init(&l->timers);
    list_init(&l->graves);
    return l->epoll < 0 ? -errno : 0;
}

int loop_add(struct loop *l, struct source *s, int fd, uint32_t events) {
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
        return -errno;
    s->fd = fd;
    s->events = events;
    return 0;
}

void loop_set(struct loop *l, struct source *s, uint32_t events) {
    if (s->fd < 0 || s->events == events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, s->fd, &ev) == 0)
        s->events = events;
}

int loop_remove(struct loop *l, struct source *s) {
    int fd = s->fd;
    if (fd >= 0)
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
    s->fd = -1;
    return fd;
}

void timer_init(struct timer *t, void (*on_due)(struct timer *t)) {
    list_init(&t->node);
    t->on_due = on_due;
}

void timer_start(struct loop *l, struct timer *t, uint64_t after_ms) {
    list_remove(&t->node);
    if (__builtin_add_overflow(l->now_ms, after_ms, &t->due_ms))
        t->due_ms = UINT64_MAX;
    list_push_back(&l->timers, &t->node);
}

void loop_free_later(struct loop *l, struct later *what, void (*free_it)(struct later *l)) {
    what->free = free_it;
    list_push_back(&l->graves, &what->node);
}

/* Splits a long wait into pieces that shrink towards the deadline. A freeze adds at most one piece to
 * now_ms, which is small compared with the time that was left. */
static int loop_wait_ms(struct loop *l) {
    uint64_t nearest = UINT64_MAX;
    LIST_FOR_EACH(it, &l->timers) {
        nearest = MIN(nearest, container_of(it, struct timer, node)->due_ms);
    }
    l->slept_ms = UINT64_MAX;
    if (nearest == UINT64_MAX)
        return -1;
    uint64_t left = nearest > l->now_ms ? nearest - l->now_ms : 0;
    l->slept_ms = MIN(left, MAX(left / 16, (uint64_t)SLACK_MS));
    l->slept_ms = MIN(l->slept_ms, (uint64_t)INT32_MAX);
    return (int)l->slept_ms;
}

static void loop_advance(struct loop *l) {
    uint64_t passed_ms = (clock_us() - l->last_us) / 1000;
    l->last_us += passed_ms * 1000;
    if (l->slept_ms != UINT64_MAX)
        passed_ms = MIN(passed_ms, l->slept_ms + SLACK_MS);
    l->now_ms += passed_ms;
}

/* A callback may start or stop any timer, so the walk restarts after each one. */
static void loop_run_timers(struct loop *l) {
    for (bool again = true; again;) {
        again = false;
        LIST_FOR_EACH(it, &l->timers) {
            struct timer *t = container_of(it, struct timer, node);
            if (t->due_ms > l->now_ms)
                continue;
            timer_stop(t);
            t->on_due(t);
            again = true;
            break;
        }
    }
}

static void loop_free_graves(struct loop *l) {
    for (struct list *it; (it = list_pop_front(&l->graves));) {
        struct later *grave = container_of(it, struct later, node);
        grave->free(grave);
    }
}

void loop_done(struct loop *l) {
    loop_free_graves(l);
    close(l->epoll);
}

void loop_run(struct loop *l, void (*on_turn)(void *arg), void *arg) {
    struct epoll_event events[EVENTS_PER_TURN];
    while (!l->stop) {
        int n = epoll_wait(l->epoll, events, EVENTS_PER_TURN, loop_wait_ms(l));
        loop_advance(l);
        for (int i = 0; i < n; i++) {
            struct source *s = events[i].data.ptr;
            if (s->fd >= 0)
                s->on_ready(s, events[i].events);
        }
        loop_run_timers(l);
        on_turn(arg);
        loop_free_graves(l);
    }
}
