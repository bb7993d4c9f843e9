#include "loop/deadline.h"

#include <stddef.h>

#include "base/clock.h"

static struct deadline *deadline_meld(struct deadline *a, struct deadline *b) {
    if (!a)
        return b;
    if (!b)
        return a;
    if (b->at_us < a->at_us) {
        struct deadline *t = a;
        a = b;
        b = t;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child)
        a->child->prev = b;
    a->child = b;
    return a;
}

/* Melds a list of siblings into one heap: first in pairs from the left, then from the right. The
 * two passes give removal its amortised logarithmic cost. */
static struct deadline *deadline_meld_row(struct deadline *row) {
    struct deadline *pairs = NULL;
    while (row) {
        struct deadline *a = row;
        struct deadline *b = a->next;
        row = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = deadline_meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    struct deadline *all = NULL;
    while (pairs) {
        struct deadline *rest = pairs->next;
        pairs->next = NULL;
        all = deadline_meld(all, pairs);
        pairs = rest;
    }
    return all;
}

static void on_timer(uv_timer_t *timer);

/* Only moves the timer to an earlier time. After deadline_clear the timer may fire too early and
 * find nothing due; this is cheaper than restarting it for each call that ends. */
static void deadline_arm(struct deadlines *all) {
    if (!all->first || (all->armed_us != 0 && all->armed_us <= all->first->at_us))
        return;
    uint64_t now = clock_us();
    uint64_t wait_us = all->first->at_us > now ? all->first->at_us - now : 0;
    all->armed_us = all->first->at_us;
    uv_update_time(all->timer.loop);
    uv_timer_start(&all->timer, on_timer, (wait_us + 999) / 1000, 0);
}

static void on_timer(uv_timer_t *timer) {
    struct deadlines *all = timer->data;
    uint64_t now = clock_us();
    all->armed_us = 0;
    while (all->first && all->first->at_us <= now) {
        struct deadline *due = all->first;
        deadline_clear(all, due);
        due->on_due(due);
    }
    deadline_arm(all);
}

void deadlines_init(struct deadlines *all, uv_loop_t *loop) {
    *all = (struct deadlines){0};
    uv_timer_init(loop, &all->timer);
    all->timer.data = all;
    uv_unref((uv_handle_t *)&all->timer);
}

void deadlines_close(struct deadlines *all) {
    uv_close((uv_handle_t *)&all->timer, NULL);
}

void deadline_init(struct deadline *d, void (*on_due)(struct deadline *d)) {
    *d = (struct deadline){.on_due = on_due};
}

void deadline_set(struct deadlines *all, struct deadline *d, uint64_t at_us) {
    deadline_clear(all, d);
    d->at_us = at_us;
    d->is_set = true;
    all->first = deadline_meld(all->first, d);
    deadline_arm(all);
}

void deadline_clear(struct deadlines *all, struct deadline *d) {
    if (!d->is_set)
        return;
    struct deadline *below = deadline_meld_row(d->child);
    if (d == all->first) {
        all->first = below;
    } else {
        if (d->prev->child == d)
            d->prev->child = d->next;
        else
            d->prev->next = d->next;
        if (d->next)
            d->next->prev = d->prev;
        all->first = deadline_meld(all->first, below);
    }
    d->child = d->next = d->prev = NULL;
    d->is_set = false;
}
