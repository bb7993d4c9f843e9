#include "base/waiter.h"

#include "harness.h"

struct one {
    struct waiter waiter;
    struct list *waiters;
    struct one *other; /* to cancel, or to add */
    bool adds;
    bool leaves;
    int n_woken;
};

static void on_wake(struct waiter *w) {
    struct one *one = container_of(w, struct one, waiter);
    one->n_woken++;
    if (one->leaves)
        waiter_cancel(&one->waiter);
    if (one->other && one->adds)
        waiter_add(one->waiters, &one->other->waiter);
    else if (one->other)
        waiter_cancel(&one->other->waiter);
    one->other = NULL;
}

static void begin(struct list *waiters, struct one *ones, int n) {
    list_init(waiters);
    for (int i = 0; i < n; i++) {
        ones[i] = (struct one){.waiters = waiters};
        waiter_init(&ones[i].waiter, on_wake);
    }
}

TEST(waiters_are_woken_again_until_they_cancel) {
    struct list waiters;
    struct one ones[2];
    begin(&waiters, ones, 2);
    waiter_add(&waiters, &ones[0].waiter);
    waiter_add(&waiters, &ones[1].waiter);
    ones[0].leaves = true;
    waiters_wake(&waiters);
    waiters_wake(&waiters);
    CHECK_INT(ones[0].n_woken, 1);
    CHECK_INT(ones[1].n_woken, 2);
}

TEST(waiter_that_another_cancels_is_not_woken) {
    struct list waiters;
    struct one ones[3];
    begin(&waiters, ones, 3);
    for (int i = 0; i < 3; i++)
        waiter_add(&waiters, &ones[i].waiter);
    ones[0].other = &ones[1];
    ones[2].other = &ones[0]; /* one that was woken already */
    waiters_wake(&waiters);
    CHECK_INT(ones[1].n_woken, 0);
    CHECK_INT(ones[2].n_woken, 1);
    waiters_wake(&waiters);
    CHECK_INT(ones[0].n_woken, 1);
    CHECK_INT(ones[2].n_woken, 2);
}

TEST(waiter_that_comes_meanwhile_is_not_woken_yet) {
    struct list waiters;
    struct one ones[2];
    begin(&waiters, ones, 2);
    waiter_add(&waiters, &ones[0].waiter);
    ones[0].other = &ones[1];
    ones[0].adds = true;
    waiters_wake(&waiters);
    CHECK_INT(ones[1].n_woken, 0);
    waiters_wake(&waiters);
    CHECK_INT(ones[1].n_woken, 1);
}

TEST(waiter_that_waits_again_is_woken_the_next_time) {
    struct list waiters;
    struct one ones[1];
    begin(&waiters, ones, 1);
    waiter_add(&waiters, &ones[0].waiter);
    ones[0].other = &ones[0];
    ones[0].adds = true;
    waiters_end(&waiters);
    CHECK_INT(ones[0].n_woken, 1);
    CHECK(waiter_is_waiting(&ones[0].waiter));
    waiters_end(&waiters);
    CHECK_INT(ones[0].n_woken, 2);
}

TEST(waiters_end_wakes_each_once_and_leaves_none) {
    struct list waiters;
    struct one ones[3];
    begin(&waiters, ones, 3);
    for (int i = 0; i < 3; i++)
        waiter_add(&waiters, &ones[i].waiter);
    ones[0].other = &ones[2];
    waiters_end(&waiters);
    CHECK(list_is_empty(&waiters));
    CHECK(!waiter_is_waiting(&ones[0].waiter) && !waiter_is_waiting(&(struct waiter){0}));
    CHECK_INT(ones[0].n_woken, 1);
    CHECK_INT(ones[1].n_woken, 1);
    CHECK_INT(ones[2].n_woken, 0);
    waiter_cancel(&ones[1].waiter); /* twice is harmless, and so is one that never waited */
    waiter_cancel(&(struct waiter){0});
}
