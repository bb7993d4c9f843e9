/* deadline — many timeouts behind one libuv timer.
 *
 * A deadline is a node inside the object that waits, so setting one allocates nothing and clearing
 * one cannot fail, and no uv handle has to be closed when the object goes.
 * Inside on_due you may set or clear any deadline and free the object that holds this one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct deadline {
    uint64_t at_us; /* clock_us() */
    void (*on_due)(struct deadline *d);
    struct deadline *child; /* pairing heap: first child, next sibling, and who points at us */
    struct deadline *next;
    struct deadline *prev;
    bool is_set;
};

struct deadlines {
    uv_timer_t timer;
    struct deadline *first; /* the root: the earliest */
    uint64_t armed_us;      /* what the timer waits for; 0 = not running */
};

void deadlines_init(struct deadlines *all, uv_loop_t *loop);
/* No deadline may be set afterwards. The timer closes with the loop's next turn. */
void deadlines_close(struct deadlines *all);

void deadline_init(struct deadline *d, void (*on_due)(struct deadline *d));
/* Sets or moves. on_due runs from the loop, never from inside this call. */
void deadline_set(struct deadlines *all, struct deadline *d, uint64_t at_us);
void deadline_clear(struct deadlines *all, struct deadline *d);
