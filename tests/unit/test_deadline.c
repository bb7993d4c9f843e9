#include "loop/deadline.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "harness.h"

struct timer {
    struct deadline deadline;
    struct deadlines *all;
    struct deadline *clears; /* cleared when this one fires */
    bool again;
    int number;
};

static int fired[512];
static size_t n_fired;

static void on_due(struct deadline *d) {
    struct timer *t = container_of(d, struct timer, deadline);
    if (n_fired < COUNT_OF(fired))
        fired[n_fired++] = t->number;
    if (t->clears)
        deadline_clear(t->all, t->clears);
    if (t->again) {
        t->again = false;
        deadline_set(t->all, d, clock_us() + 2000);
    }
}

static void on_idle(uv_idle_t *handle) {
    (void)handle;
}

/* Runs until n have fired, then on until end_us to notice extra ones. The timer does not keep the
 * loop alive, so an idle handle does. */
static void run_until(uv_loop_t *loop, size_t n, uint64_t end_us) {
    uv_idle_t keep;
    uint64_t limit_us = clock_us() + 20000000;
    uv_idle_init(loop, &keep);
    uv_idle_start(&keep, on_idle);
    while (clock_us() < end_us || (n_fired < n && clock_us() < limit_us))
        uv_run(loop, UV_RUN_NOWAIT);
    uv_close((uv_handle_t *)&keep, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static void close_loop(uv_loop_t *loop, struct deadlines *all) {
    deadlines_close(all);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(loop), 0);
}

TEST(deadlines_fire_in_order_of_time) {
    uv_loop_t loop;
    struct deadlines all;
    struct timer timers[200] = {0};
    uv_loop_init(&loop);
    deadlines_init(&all, &loop);
    n_fired = 0;
    uint64_t now = clock_us();
    srand(7);
    int order[200];
    for (int i = 0; i < 200; i++)
        order[i] = i;
    for (int i = 199; i > 0; i--) {
        int j = rand() % (i + 1), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < 200; i++) {
        struct timer *t = &timers[order[i]];
        t->number = order[i];
        t->all = &all;
        deadline_init(&t->deadline, on_due);
        deadline_set(&all, &t->deadline, now + 5000 + (uint64_t)order[i] * 50);
    }
    for (int i = 0; i < 200; i += 3)
        deadline_clear(&all, &timers[i].deadline); /* every third never fires */
    deadline_clear(&all, &timers[0].deadline);     /* harmless when repeated */
    run_until(&loop, 133, now + 40000);
    CHECK_INT(n_fired, 133);
    for (size_t i = 1; i < n_fired; i++)
        CHECK(fired[i - 1] < fired[i]);
    for (size_t i = 0; i < n_fired; i++)
        CHECK(fired[i] % 3 != 0);
    close_loop(&loop, &all);
}

TEST(deadline_may_clear_another_and_set_itself_again_when_it_fires) {
    uv_loop_t loop;
    struct deadlines all;
    struct timer a = {.number = 1, .all = &all, .again = true}, b = {.number = 2, .all = &all};
    uv_loop_init(&loop);
    deadlines_init(&all, &loop);
    n_fired = 0;
    deadline_init(&a.deadline, on_due);
    deadline_init(&b.deadline, on_due);
    a.clears = &b.deadline;
    deadline_set(&all, &b.deadline, clock_us() + 3000);
    deadline_set(&all, &a.deadline, clock_us() + 1000);
    CHECK_INT(n_fired, 0); /* never inside the call */
    run_until(&loop, 2, clock_us() + 20000);
    CHECK_INT(n_fired, 2);
    CHECK_INT(fired[0] + fired[1], 2);
    close_loop(&loop, &all);
}
