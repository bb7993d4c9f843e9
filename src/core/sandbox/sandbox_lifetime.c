/* sandbox_lifetime — ends a sandbox after its TTL, or when it was idle for its idle TTL. */
#include "base/clock.h"
#include "base/log.h"
#include "core/sandbox/sandbox_impl.h"

#define LATER_US UINT64_C(1000000)
#define FAR_MS (INT64_C(1) << 40) /* no deadline is set beyond this time */

#define ACTION(name) BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_##name

/* Returns when the idle TTL ends. A sandbox is idle while it is READY, no exec runs and no file is
 * open; a watch of files does not count. 0 = the sandbox is not idle, or has no idle TTL. */
static int64_t sandbox_lifetime_idle_due(const struct sandbox *sb) {
    const Berm__V1__Lifetime *l = sb->box.record->spec->lifetime;
    if (!l || l->idle_ttl_ms <= 0 || sb->execs.n_running > 0 || sb->files.n_handles > 0 ||
        !box_is(&sb->box, SB_READY) || sb->box.goal != GOAL_RUN)
        return 0;
    return sb->box.record->last_activity_unix_ms + l->idle_ttl_ms;
}

void sandbox_lifetime_begin(struct sandbox *sb) {
    const Berm__V1__Lifetime *l = sb->box.record->spec->lifetime;
    sb->box.record->expires_unix_ms = l && l->ttl_ms > 0 ? clock_unix_ms() + l->ttl_ms : 0;
}

void sandbox_lifetime_update(struct sandbox *sb) {
    int64_t idle = sandbox_lifetime_idle_due(sb), whole = sb->box.record->expires_unix_ms,
            now = clock_unix_ms();
    bool is_over = sb->box.goal == GOAL_DELETE || box_is(&sb->box, SB_FAILED);
    int64_t due = whole > 0 && (idle == 0 || whole < idle) ? whole : idle;
    sb->box.record->idle_due_unix_ms = idle;
    if (due == 0 || is_over || due - now > FAR_MS)
        deadline_clear(sb->box.env->deadlines, &sb->due);
    else
        deadline_set(sb->box.env->deadlines, &sb->due,
                     clock_us() + (uint64_t)MAX(due - now, 0) * 1000);
}

void sandbox_touch(struct box *b) {
    struct sandbox *sb = sandbox_of(b);
    sb->box.record->last_activity_unix_ms = clock_unix_ms();
    sandbox_wake(b);
    sandbox_lifetime_update(sb);
}

/* Makes the change that the TTL or idle TTL requests. */
static int sandbox_lifetime_act(struct sandbox *sb, int action, int cause, struct err *e) {
    struct change c = {.cause = cause};
    if (action == ACTION(DELETE))
        return sandbox_delete(sb, 0, &c, e);
    if (box_is(&sb->box, SB_STOPPED) || box_is(&sb->box, SB_STOPPING))
        return 0;
    return action == ACTION(PAUSE) ? sandbox_pause(sb, 0, &c, e) : sandbox_stop(sb, 0, 0, &c, e);
}

static void on_due(struct deadline *d) {
    struct sandbox *sb = container_of(d, struct sandbox, due);
    const Berm__V1__Lifetime *l = sb->box.record->spec->lifetime;
    int64_t idle = sandbox_lifetime_idle_due(sb), whole = sb->box.record->expires_unix_ms,
            now = clock_unix_ms();
    struct err e;
    int r = 0;
    if (whole > 0 && whole <= now) {
        r = sandbox_lifetime_act(sb, (int)l->ttl_action, BERM__V1__STATE_CAUSE__STATE_CAUSE_TTL,
                                 &e);
        if (r == 0)
            sb->box.record->expires_unix_ms = 0; /* the TTL fires once; stored with the change */
    } else if (idle > 0 && idle <= now) {
        r = sandbox_lifetime_act(sb, (int)l->idle_action,
                                 BERM__V1__STATE_CAUSE__STATE_CAUSE_IDLE_TTL, &e);
    }
    if (r < 0) {
        log_text(LOG_WARN, "lifetime", "%s: %s", sb->box.record->sandbox_id, e.text);
        deadline_set(sb->box.env->deadlines, &sb->due, clock_us() + LATER_US);
        return;
    }
    sandbox_lifetime_update(sb);
}

void sandbox_lifetime_init(struct sandbox *sb) {
    deadline_init(&sb->due, on_due);
}
