/* deadline — many timeouts behind one libuv timer.
 *
 * A deadline is a node inside the object that waits. Setting it allocates nothing, clearing it
 * cannot fail, and the object has no uv handle to close. Inside on_due you may set or clear any
 * deadline and free the object that contains this one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct deadline {
    uint64_t at_us; /* compared with clock_us() */
    void (*on_due)(struct deadline *d);
    /* pairing heap: first child, next sibling, and previous sibling or parent */
    struct deadline *child;
    struct deadline *next;
    struct deadline *prev;
    bool is_set;
};

struct deadlines {
    uv_timer_t timer;
    struct deadline *first; /* root of the heap: the earliest deadline */
    uint64_t armed_us;      /* when the timer fires; 0: not running */
};

void deadlines_init(struct deadlines *all, uv_loop_t *loop);
/* Do not set a deadline after this call. The timer closes in the loop's next iteration. */
void deadlines_close(struct deadlines *all);

void deadline_init(struct deadline *d, void (*on_due)(struct deadline *d));
/* Sets or moves the deadline. on_due runs from the loop, never inside this call. */
void deadline_set(struct deadlines *all, struct deadline *d, uint64_t at_us);
void deadline_clear(struct deadlines *all, struct deadline *d);
