/* sandbox_wait — lets calls wait until the sandbox has reached its goal. */
#include "base/clock.h"
#include "core/sandbox/sandbox_impl.h"

bool sandbox_settled(const struct sandbox *sb) {
    if (sb->recorded.n_pending > 0)
        return false;
    if (sb->box.goal == GOAL_DELETE)
        return box_is(&sb->box, SB_DELETED);
    if (box_is(&sb->box, SB_STOPPED) || box_is(&sb->box, SB_FAILED))
        return true;
    return box_is(&sb->box, sb->box.goal == GOAL_STOP    ? SB_STOPPED
                            : sb->box.goal == GOAL_PAUSE ? SB_PAUSED
                                                         : SB_READY);
}

static bool sandbox_wait_is_met(const struct sandbox *sb, const struct sandbox_wait *w) {
    return w->until_deleted ? box_is(&sb->box, SB_DELETED) && sb->recorded.n_pending == 0
                            : sandbox_settled(sb);
}

static void sandbox_wait_end(struct sandbox_wait *w) {
    sandbox_wait_cancel(w);
    w->waiter.on_wake(&w->waiter);
}

void sandbox_waits_check(struct sandbox *sb) {
    LIST_FOR_EACH(node, &sb->waits) {
        struct sandbox_wait *w = container_of(node, struct sandbox_wait, waiter.node);
        if (sandbox_wait_is_met(sb, w))
            sandbox_wait_end(w);
    }
}

void sandbox_waits_end(struct sandbox *sb) {
    while (!list_is_empty(&sb->waits))
        sandbox_wait_end(container_of(sb->waits.next, struct sandbox_wait, waiter.node));
}

static void on_due(struct deadline *d) {
    sandbox_wait_end(container_of(d, struct sandbox_wait, deadline));
}

void sandbox_wait(struct sandbox *sb, struct sandbox_wait *w, int64_t wait_ms,
                  void (*on_done)(struct waiter *w)) {
    w->sandbox = sb;
    w->deadlines = sb->box.env->deadlines;
    deadline_init(&w->deadline, on_due);
    waiter_init(&w->waiter, on_done);
    waiter_add(&sb->waits, &w->waiter);
    uint64_t for_us = sandbox_wait_is_met(sb, w) ? 0 : (uint64_t)wait_ms * 1000;
    deadline_set(w->deadlines, &w->deadline, clock_us() + for_us);
}

void sandbox_wait_cancel(struct sandbox_wait *w) {
    if (!w->deadlines)
        return;
    waiter_cancel(&w->waiter);
    deadline_clear(w->deadlines, &w->deadline);
}
