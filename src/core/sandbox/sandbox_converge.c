/* sandbox_converge — takes a sandbox one step towards its goal.
 *
 * Called after every event. It acts only on durable records: while an entry is pending it returns,
 * and the entry's completion calls it again. Each step either sends a request and waits for the
 * reply, or records an outcome; so a daemon that was killed anywhere continues from its records
 * alone. The step depends on the goal, the instance state and the link state: see
 * core/box/box_state.h. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/guest/guest_sandbox.h"
#include "core/box/box_dir.h"
#include "core/sandbox/sandbox_impl.h"

#define STOP_GRACE_MS 5000
/* Longer than a busy host stalls, because a kill loses exits that the guest has not written to
 * status files. */
#define STOP_MARGIN_MS 5000

#define CAUSE(name) BERM__V1__STATE_CAUSE__STATE_CAUSE_##name

/* --- freeze and thaw --- */

/* When the driver refuses a pause or resume, the instance keeps its state, and the goal changes
 * back to that state. */
static void on_freeze_failed(struct sandbox *sb, const struct err *e) {
    bool was_frozen = sb->box.instance_state == INST_THAWING;
    log_text(LOG_WARN, "freeze", "%s: %s", sb->box.record->sandbox_id, e->text);
    box_set_instance(&sb->box, was_frozen ? INST_FROZEN : INST_UP);
    if (sb->box.goal <= GOAL_PAUSE)
        box_set_goal(&sb->box, was_frozen ? GOAL_PAUSE : GOAL_RUN);
    sandbox_waits_check(sb);
}

static void on_frozen(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    sandbox_failpoint(sb, OP_ACK);
    if (a->e)
        on_freeze_failed(sb, a->e);
    else
        box_set_instance(&sb->box, sb->box.instance_state == INST_FREEZING ? INST_FROZEN : INST_UP);
    sandbox_converge(sb);
}

static void sandbox_converge_freeze(struct sandbox *sb) {
    sandbox_failpoint(sb, OP_COMMIT);
    box_set_instance(&sb->box, INST_FREEZING);
    files_gone(&sb->files, false);
    instance_pause(sb->box.instance, on_frozen, NULL);
    sandbox_failpoint(sb, OP_SEND);
}

static void sandbox_converge_thaw(struct sandbox *sb) {
    sandbox_failpoint(sb, OP_COMMIT);
    box_set_instance(&sb->box, INST_THAWING);
    instance_resume(sb->box.instance, on_frozen, NULL);
    sandbox_failpoint(sb, OP_SEND);
}

/* --- ending --- */

static void on_thawed_to_end(struct instance *p, const struct instance_answer *a, void *user) {
    (void)a;
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    box_set_instance(&sb->box, INST_UP);
    sandbox_converge(sb);
}

static void sandbox_converge_kill(struct sandbox *sb) {
    box_set_instance(&sb->box, INST_STOPPING);
    instance_stop(sb->box.instance);
}

/* Asks the guest to end its execs: SIGTERM and the grace time, or SIGKILL when that is 0.
 * guest_deadline kills a guest that does not end. */
static void sandbox_converge_shutdown(struct sandbox *sb) {
    int64_t grace_ms = sb->request.grace_ms == 0 ? STOP_GRACE_MS : MAX(sb->request.grace_ms, 0);
    if (sb->box.goal == GOAL_DELETE)
        grace_ms = 0;
    box_set_instance(&sb->box, INST_SHUTDOWN);
    sb->shutdown_goal = sb->box.goal;
    guest_sandbox_shutdown(sb->box.link, grace_ms);
    deadline_set(sb->box.env->deadlines, &sb->guest_deadline,
                 clock_us() + (uint64_t)(grace_ms + STOP_MARGIN_MS) * 1000);
}

/* Connects to the guest, because a guest that was frozen has no link after a restart. */
static void sandbox_converge_reach(struct sandbox *sb) {
    if (!sb->guest_deadline.is_set)
        deadline_set(sb->box.env->deadlines, &sb->guest_deadline,
                     clock_us() + STOP_MARGIN_MS * 1000);
    if (!sb->box.link)
        sandbox_connect(sb);
}

/* Ends the guest. While execs run, the end is graceful, so that the guest records how they end. */
static void sandbox_converge_end_guest(struct sandbox *sb) {
    sandbox_failpoint(sb, OP_COMMIT);
    files_gone(&sb->files, true);
    if (sb->execs.n_running == 0) {
        sandbox_converge_kill(sb);
    } else if (sb->box.instance_state == INST_FROZEN) {
        box_set_instance(&sb->box, INST_THAWING);
        instance_resume(sb->box.instance, on_thawed_to_end, NULL);
        return;
    } else if (box_is_linked(&sb->box)) {
        sandbox_converge_shutdown(sb);
    } else if (sb->failure.code == ERR_NONE) {
        sandbox_converge_reach(sb);
        return;
    } else {
        sandbox_converge_kill(sb);
    }
    sandbox_failpoint(sb, OP_SEND);
}

/* Returns the cause for the outcome. If the TTL requested the stop, the cause stays TTL. */
static int sandbox_converge_cause(const struct sandbox *sb) {
    bool by_clock = sb->request.cause == CAUSE(IDLE_TTL) || sb->request.cause == CAUSE(TTL);
    return by_clock ? sb->request.cause : CAUSE(COMPLETED);
}

/* --- removal --- */

struct removal {
    uv_work_t work;
    struct sandbox *sandbox;
    int parent_fd;
    char name[64];
};

static void removal_remove(uv_work_t *work) {
    struct removal *m = container_of(work, struct removal, work);
    box_dir_remove(m->parent_fd, m->name);
}

/* Called when the driver has removed the files. If the driver is lost, the sweep of the next start
 * removes them. */
static void on_discarded(void *user, const struct err *e) {
    struct sandbox *sb = user;
    if (env_job_end(sb->box.env))
        return;
    if (e)
        log_text(LOG_WARN, "discard", "%s: %s", sb->box.record->sandbox_id, e->text);
    sandbox_failpoint(sb, OP_ACK);
    struct entry *t = ledger_begin(sb->box.env->ledger);
    if (!t) {
        box_set_instance(&sb->box, INST_NONE);
        deadline_set(sb->box.env->deadlines, &sb->again, clock_us() + 1000000);
        return;
    }
    sandbox_enter(sb, t, SB_DELETED, &(struct sandbox_why){.cause = sandbox_converge_cause(sb)});
    db_forget_execs(entry_txn(t), str_of(sb->box.record->sandbox_id));
    ledger_commit(t, NULL);
}

static void on_removed(uv_work_t *work, int status) {
    (void)status;
    struct removal *m = container_of(work, struct removal, work);
    struct sandbox *sb = m->sandbox;
    free(m);
    if (env_job_end(sb->box.env))
        return;
    env_job_begin(sb->box.env);
    driver_discard(sb->box.driver, sb->instance_id, true, on_discarded, sb);
    sandbox_failpoint(sb, OP_SEND);
}

static void sandbox_converge_remove(struct sandbox *sb) {
    struct removal *m = calloc(1, sizeof *m);
    if (!m)
        return;
    execs_drop_settled(&sb->execs); /* wakes readers before the output is removed */
    if (sb->transcript)
        transcript_close(TAKE(sb->transcript));
    if (sb->box.dir_fd >= 0)
        close(TAKE_FD(sb->box.dir_fd));
    m->sandbox = sb;
    m->parent_fd = sb->box.env->sandboxes_fd;
    snprintf(m->name, sizeof m->name, "%s", sb->box.record->sandbox_id);
    box_set_instance(&sb->box, INST_REMOVING);
    sandbox_failpoint(sb, OP_COMMIT);
    env_job_begin(sb->box.env);
    uv_queue_work(sb->box.env->loop, &m->work, removal_remove, on_removed);
}

/* --- the steps --- */

/* Records that the instance ended without a request. The files stay, and a caller can start the
 * sandbox again. */
static void sandbox_converge_lost(struct sandbox *sb) {
    bool by_reboot = sb->box.env->host_was_rebooted && !sb->box.env->is_recovered;
    struct err e = sb->failure;
    if (e.code == ERR_NONE)
        err_set(&e, ERR_GUEST_LOST, by_reboot ? "the host was rebooted" : "the guest has ended");
    sandbox_outcome(
        sb, SB_STOPPED, GOAL_STOP,
        &(struct sandbox_why){.cause = by_reboot ? CAUSE(HOST_REBOOT) : CAUSE(GUEST_LOST),
                              .e = &e,
                              .by_sandbox = true});
}

/* Records a failed start. A sandbox that was never READY has no files to keep. Otherwise the files
 * stay, and a caller can start the sandbox again. */
static void sandbox_converge_failed(struct sandbox *sb) {
    struct sandbox_why why = {.cause = CAUSE(ERROR), .e = &sb->failure};
    if (sb->box.record->incarnation == 1)
        sandbox_outcome(sb, SB_FAILED, sb->box.goal, &why);
    else
        sandbox_outcome(sb, SB_STOPPING, GOAL_STOP, &why);
}

static void sandbox_converge_stopped(struct sandbox *sb) {
    struct sandbox_why why = {.cause = sandbox_converge_cause(sb)};
    if (sb->failure.code != ERR_NONE)
        why = (struct sandbox_why){.cause = CAUSE(ERROR), .e = &sb->failure};
    if (box_is(&sb->box, SB_STOPPING))
        sandbox_outcome(sb, SB_STOPPED, sb->box.goal, &why);
}

/* Records the outcome of a pause or resume and who asked for it: a caller, or the disk-space
 * reserve. */
static void sandbox_converge_paused(struct sandbox *sb, int state) {
    struct err held;
    struct sandbox_why why = {.cause = sandbox_converge_cause(sb),
                              .who = sb->request.who.identity[0] ? &sb->request.who : NULL,
                              .request_id = sb->request.request_id};
    if (sandbox_is_held(sb)) {
        sandbox_reserve_explain(sb->box.env, &held);
        why.cause = CAUSE(ERROR);
        why.e = &held;
    }
    sandbox_outcome(sb, state, sb->box.goal, &why);
}

/* Takes the next step for goal STOP or DELETE. */
static void sandbox_converge_end(struct sandbox *sb) {
    switch (sb->box.instance_state) {
    case INST_NONE:
        if (sb->box.goal == GOAL_DELETE)
            sandbox_converge_remove(sb);
        else
            sandbox_converge_stopped(sb);
        return;
    case INST_SHUTDOWN:
        if (sb->shutdown_goal != sb->box.goal) /* the goal is now DELETE: no grace time */
            sandbox_converge_end_guest(sb);
        return;
    case INST_PARKED:
    case INST_UP:
    case INST_FROZEN:
        sandbox_converge_end_guest(sb);
        return;
    case INST_OPENING:
    case INST_CREATING:
    case INST_CLAIMING:
    case INST_FREEZING:
    case INST_THAWING:
    case INST_STOPPING:
    case INST_CLEARING:
    case INST_REMOVING:
        return; /* the reply calls sandbox_converge */
    }
}

/* Takes the next step for goal RUN, state PENDING, while the instance is up: connect, configure,
 * copy, READY. */
static void sandbox_converge_start_guest(struct sandbox *sb) {
    switch (sb->box.link_state) {
    case LINK_NONE:
    case LINK_LOST:
        sandbox_connect(sb);
        return;
    case LINK_CONNECTING:
    case LINK_RECONNECTING:
    case LINK_GREETED:
    case LINK_CONFIGURING:
        return;
    case LINK_CONFIGURED:
        if (!copies_are_done(&sb->copies)) {
            copies_begin(&sb->copies);
            return;
        }
        sb->claim.is_active = false;
        sandbox_outcome(sb, SB_READY, sb->box.goal,
                        &(struct sandbox_why){.cause = CAUSE(COMPLETED)});
        return;
    }
}

/* Takes the next step for goal RUN, state PENDING. */
static void sandbox_converge_start(struct sandbox *sb) {
    bool has_failed = sb->failure.code != ERR_NONE;
    if (sb->claim.is_active && has_failed) {
        sandbox_unclaim(sb); /* sandbox_converge then creates an instance without the pool */
        return;
    }
    switch (sb->box.instance_state) {
    case INST_NONE:
        if (has_failed)
            sandbox_converge_failed(sb);
        else
            sandbox_make_instance(sb);
        return;
    case INST_PARKED:
        sandbox_make_instance(sb);
        return;
    case INST_UP:
        if (has_failed)
            sandbox_converge_kill(sb);
        else
            sandbox_converge_start_guest(sb);
        return;
    case INST_OPENING:
    case INST_CREATING:
    case INST_CLAIMING:
    case INST_FREEZING:
    case INST_FROZEN:
    case INST_THAWING:
    case INST_SHUTDOWN:
    case INST_STOPPING:
    case INST_CLEARING:
    case INST_REMOVING:
        return;
    }
}

/* Takes the next step for goal RUN, state READY or PAUSED, while the instance is up and not
 * frozen. */
static void sandbox_converge_run_guest(struct sandbox *sb) {
    switch (sb->box.link_state) {
    case LINK_NONE:
    case LINK_LOST:
        if (!box_is(&sb->box, SB_READY) || !sandbox_is_dormant(sb))
            sandbox_connect(sb);
        return;
    case LINK_CONNECTING:
    case LINK_RECONNECTING:
        return;
    case LINK_GREETED:
    case LINK_CONFIGURING:
    case LINK_CONFIGURED:
        if (box_is(&sb->box, SB_PAUSED)) /* after a resume, the guest answers again */
            sandbox_converge_paused(sb, SB_READY);
        return;
    }
}

/* Takes the next step for goal RUN or PAUSE, state READY or PAUSED. */
static void sandbox_converge_run(struct sandbox *sb) {
    switch (sb->box.instance_state) {
    case INST_NONE:
        sandbox_converge_lost(sb);
        return;
    case INST_UP:
        if (sb->failure.code != ERR_NONE && !sb->box.link)
            sandbox_converge_kill(sb); /* bermd cannot reach the guest */
        else if (sb->box.goal == GOAL_PAUSE)
            sandbox_converge_freeze(sb);
        else
            sandbox_converge_run_guest(sb);
        return;
    case INST_FROZEN:
        if (sb->box.goal == GOAL_RUN)
            sandbox_converge_thaw(sb);
        else if (box_is(&sb->box, SB_READY))
            sandbox_converge_paused(sb, SB_PAUSED);
        else if (!sb->box.link && !sandbox_is_dormant(sb)) /* an adopted instance */
            sandbox_watch_exit(sb);
        return;
    case INST_PARKED:
    case INST_OPENING:
    case INST_CREATING:
    case INST_CLAIMING:
    case INST_FREEZING:
    case INST_THAWING:
    case INST_SHUTDOWN:
    case INST_STOPPING:
    case INST_CLEARING:
    case INST_REMOVING:
        return;
    }
}

/* Returns whether recovery must still wait for the sandbox. The daemon listens when this returns
 * false for all sandboxes. */
static bool sandbox_converge_holds_recovery(const struct sandbox *sb) {
    if (sb->recorded.n_pending > 0 || sb->box.instance_state == INST_CLEARING)
        return true;
    if (!box_is(&sb->box, SB_READY))
        return false;
    bool waits_for_guest = box_is_up(&sb->box) && sb->box.instance_state != INST_FROZEN &&
                           sb->box.instance_state != INST_THAWING && !box_is_linked(&sb->box) &&
                           !sandbox_is_dormant(sb) && !sb->box.env->recovery_timed_out;
    return waits_for_guest || !box_has_instance(&sb->box);
}

static void sandbox_converge_step(struct sandbox *sb) {
    bool has_ended = box_is(&sb->box, SB_FAILED) || box_is(&sb->box, SB_STOPPED);
    switch (sb->box.goal) {
    case GOAL_NONE:
        return;
    case GOAL_DELETE:
        sandbox_converge_end(sb);
        return;
    case GOAL_STOP:
        if (has_ended)
            sb->all->ops->on_ended(sb->all);
        else
            sandbox_converge_end(sb);
        return;
    case GOAL_RUN:
    case GOAL_PAUSE:
        if (has_ended)
            sb->all->ops->on_ended(sb->all);
        else if (box_is(&sb->box, SB_PENDING))
            sandbox_converge_start(sb);
        else
            sandbox_converge_run(sb);
        return;
    }
}

void sandbox_converge(struct sandbox *sb) {
    if (sb->recorded.n_pending > 0 || sb->box.env->is_closing || !sb->box.driver)
        return;
    if (box_is(&sb->box, SB_DELETED)) {
        sandbox_failpoint(sb, OP_OUTCOME);
        struct sandboxes *all = sb->all;
        sandbox_free(sb);
        all->ops->on_ended(all);
        return;
    }
    if (sandbox_settled(sb))
        sandbox_failpoint(sb, OP_OUTCOME);
    sandbox_converge_step(sb);
    if (sb->is_recovering && !sandbox_converge_holds_recovery(sb)) {
        sb->is_recovering = false;
        sb->all->ops->on_recovered(sb->all);
    }
}
