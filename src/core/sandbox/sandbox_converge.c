/* converge — takes a sandbox one step nearer to where it is wanted.
 *
 * Called whenever anything happened. It acts only on what is durable: while an entry is on its way it
 * returns, and the entry's own answer calls it again. Each step either asks somebody and waits for the
 * answer, or records an outcome; so a daemon that was killed anywhere goes on from its records alone. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/imports/copies.h"
#include "core/exec/exec_impl.h"
#include "core/sandbox/sandbox_dir.h"
#include "core/reserve.h"
#include "core/sandbox/sandbox_impl.h"

#define STOP_GRACE_MS 5000
/* Longer than a busy host stands still: an exit that the guest has not written down is lost. */
#define STOP_MARGIN_MS 5000

#define CAUSE(name) BERM__V1__STATE_CAUSE__STATE_CAUSE_##name

/* --- freeze and thaw --- */

static void on_frozen(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = p->user;
    sandbox_failpoint(sb, OP_ACK);
    sb->freezing = false;
    if (!a->e)
        sb->frozen = sb->freezing_to;
    else {
        log_text(LOG_WARN, "freeze", "%s: %s", sb->record->sandbox_id, a->e->text);
        if (sb->wanted <= WANTED_PAUSE)
            sb->wanted = sb->frozen ? WANTED_PAUSE : WANTED_RUN; /* it stays as it is */
        sandbox_look_at_waits(sb);
    }
    sandbox_converge(sb);
}

static void freeze(struct sandbox *sb) {
    sandbox_failpoint(sb, OP_COMMIT);
    sb->freezing = true;
    sb->freezing_to = sb->wanted == WANTED_PAUSE;
    if (sb->freezing_to) {
        files_gone(sb, false);
        instance_pause(sb->instance, on_frozen, NULL);
    } else {
        instance_resume(sb->instance, on_frozen, NULL);
    }
    sandbox_failpoint(sb, OP_SEND);
}

/* --- ending --- */

static void on_thawed_to_end(struct instance *p, const struct instance_answer *a, void *user) {
    (void)a;
    (void)user;
    struct sandbox *sb = p->user;
    sb->freezing = sb->frozen = false;
    sandbox_converge(sb);
}

static void stop_now(struct sandbox *sb) {
    sb->presence = PRESENCE_ENDING;
    instance_stop(sb->instance);
}

/* Programs get SIGTERM and their grace time, or SIGKILL when that is 0; a guest that does not end by
 * itself is ended. */
static void ask_to_end(struct sandbox *sb) {
    int64_t grace_ms = sb->grace_ms == 0 ? STOP_GRACE_MS : MAX(sb->grace_ms, 0);
    if (sb->wanted == WANTED_DELETE)
        grace_ms = 0;
    sb->asked_to_end = sb->wanted;
    struct json_out *params = guest_link_ask(sb->link, "shutdown");
    json_put_i64(params, "grace_ms", grace_ms);
    guest_link_send(sb->link, NULL, 0, NULL);
    deadline_set(sb->registry->spec.deadlines, &sb->guest_deadline,
                 clock_us() + (uint64_t)(grace_ms + STOP_MARGIN_MS) * 1000);
}

/* After a restart a guest that was frozen is not linked yet. */
static void reach_to_end(struct sandbox *sb) {
    if (!sb->guest_deadline.is_set)
        deadline_set(sb->registry->spec.deadlines, &sb->guest_deadline,
                     clock_us() + STOP_MARGIN_MS * 1000);
    if (!sb->link)
        sandbox_connect(sb);
}

static void end_instance(struct sandbox *sb) {
    bool is_there = sb->presence == PRESENCE_UP || sb->presence == PRESENCE_PARKED;
    if (!is_there || sb->freezing || sb->asked_to_end == sb->wanted)
        return;
    sandbox_failpoint(sb, OP_COMMIT);
    files_gone(sb, true);
    bool is_graceful = sb->n_running > 0; /* so that the guest sees how its programs end */
    if (is_graceful && sb->frozen) {
        sb->freezing = true;
        instance_resume(sb->instance, on_thawed_to_end, NULL);
        return;
    }
    if (is_graceful && !sb->linked && sb->failure.code == ERR_NONE) {
        reach_to_end(sb);
        return;
    }
    if (is_graceful && sb->linked)
        ask_to_end(sb);
    else
        stop_now(sb);
    sandbox_failpoint(sb, OP_SEND);
}

/* A clock that ended it is the reason also when it has ended. */
static int ended_by(const struct sandbox *sb) {
    bool by_clock = sb->cause == CAUSE(IDLE_TTL) || sb->cause == CAUSE(TTL);
    return by_clock ? sb->cause : CAUSE(COMPLETED);
}

/* --- removal --- */

struct removal {
    uv_work_t work;
    struct sandbox *sandbox;
    int parent_fd;
    char name[64];
};

static void remove_folder(uv_work_t *work) {
    struct removal *m = container_of(work, struct removal, work);
    folder_remove(m->parent_fd, m->name);
}

/* A driver that is lost leaves files for the sweep at the next start. */
static void on_discarded(void *user, const struct err *e) {
    struct sandbox *sb = user;
    if (registry_job_over(sb->registry))
        return;
    if (e)
        log_text(LOG_WARN, "discard", "%s: %s", sb->record->sandbox_id, e->text);
    sandbox_failpoint(sb, OP_ACK);
    struct entry *t = ledger_begin(sb->registry->ledger);
    sb->removing = t != NULL;
    if (!t) {
        deadline_set(sb->registry->spec.deadlines, &sb->again, clock_us() + 1000000);
        return;
    }
    sandbox_enter(sb, t, SB_DELETED, &(struct sandbox_why){.cause = ended_by(sb)});
    db_forget_execs(entry_txn(t), str_of(sb->record->sandbox_id));
    ledger_commit(t, NULL);
}

static void on_removed(uv_work_t *work, int status) {
    (void)status;
    struct removal *m = container_of(work, struct removal, work);
    struct sandbox *sb = m->sandbox;
    free(m);
    if (registry_job_over(sb->registry))
        return;
    registry_job(sb->registry);
    driver_discard(sb->driver, sb->instance_id, true, on_discarded, sb);
    sandbox_failpoint(sb, OP_SEND);
}

static void remove_files(struct sandbox *sb) {
    struct removal *m = sb->removing ? NULL : calloc(1, sizeof *m);
    if (!m)
        return;
    exec_drop_all(sb); /* readers hear that nothing more can come, before it is gone */
    if (sb->transcript)
        transcript_close(TAKE(sb->transcript));
    if (sb->dir_fd >= 0)
        close(TAKE_FD(sb->dir_fd));
    m->sandbox = sb;
    m->parent_fd = sb->registry->spec.sandboxes_fd;
    snprintf(m->name, sizeof m->name, "%s", sb->record->sandbox_id);
    sb->removing = true;
    sandbox_failpoint(sb, OP_COMMIT);
    registry_job(sb->registry);
    uv_queue_work(sb->registry->spec.loop, &m->work, remove_folder, on_removed);
}

/* --- the steps --- */

static void to_delete(struct sandbox *sb) {
    if (sb->presence != PRESENCE_NONE)
        end_instance(sb);
    else
        remove_files(sb);
}

static void to_stop(struct sandbox *sb) {
    if (sb->presence != PRESENCE_NONE)
        end_instance(sb);
    else if (sandbox_is(sb, SB_STOPPING) && sb->failure.code != ERR_NONE)
        sandbox_outcome(sb, SB_STOPPED, sb->wanted,
                        &(struct sandbox_why){.cause = CAUSE(ERROR), .e = &sb->failure});
    else if (sandbox_is(sb, SB_STOPPING))
        sandbox_outcome(sb, SB_STOPPED, sb->wanted, &(struct sandbox_why){.cause = ended_by(sb)});
}

/* Nobody asked for its end: the files are kept and it can be started again. */
static void was_lost(struct sandbox *sb) {
    bool by_reboot = sb->registry->spec.host_was_rebooted && !sb->registry->is_recovered;
    struct err e = sb->failure;
    if (e.code == ERR_NONE)
        err_set(&e, ERR_GUEST_LOST, by_reboot ? "the host was rebooted" : "the guest has ended");
    sandbox_outcome(
        sb, SB_STOPPED, WANTED_STOP,
        &(struct sandbox_why){.cause = by_reboot ? CAUSE(HOST_REBOOT) : CAUSE(GUEST_LOST),
                              .e = &e,
                              .by_sandbox = true});
}

/* A sandbox that was never READY has nothing to keep. One that was keeps its files, and may be started
 * again when what hindered it has gone. */
static void could_not_start(struct sandbox *sb) {
    struct sandbox_why why = {.cause = CAUSE(ERROR), .e = &sb->failure};
    if (sb->record->incarnation == 1)
        sandbox_outcome(sb, SB_FAILED, sb->wanted, &why);
    else
        sandbox_outcome(sb, SB_STOPPING, WANTED_STOP, &why);
}

static void to_first_run(struct sandbox *sb) {
    bool has_failed = sb->failure.code != ERR_NONE;
    if (sb->claiming && has_failed)
        sandbox_unclaim(sb); /* whatever it was: it is made as if there had been none to claim */
    else if (sb->presence == PRESENCE_NONE && has_failed)
        could_not_start(sb);
    else if (sb->presence == PRESENCE_NONE || sb->presence == PRESENCE_PARKED)
        sandbox_make_instance(sb);
    else if (sb->presence != PRESENCE_UP)
        return;
    else if (has_failed)
        stop_now(sb); /* the guest cannot be talked to */
    else if (!sb->link)
        sandbox_connect(sb);
    else if (!sb->linked || !sb->configured)
        return;
    else if (!copies_are_done(sb))
        copies_begin(sb);
    else {
        sb->claiming = false;
        sandbox_outcome(sb, SB_READY, sb->wanted, &(struct sandbox_why){.cause = CAUSE(COMPLETED)});
    }
}

static void to_run(struct sandbox *sb) {
    bool wants_frozen = sb->wanted == WANTED_PAUSE;
    struct sandbox_why as_asked = {.cause = ended_by(sb),
                                   .who = sb->asked_by.identity[0] ? &sb->asked_by : NULL,
                                   .request_id = sb->asked_under};
    struct err held;
    if (reserve_holds(sb)) {
        reserve_explain(sb->registry, &held);
        as_asked.cause = CAUSE(ERROR);
        as_asked.e = &held;
    }
    if (sandbox_is(sb, SB_PENDING))
        to_first_run(sb);
    else if (sb->presence == PRESENCE_NONE)
        was_lost(sb);
    else if (sb->presence != PRESENCE_UP || sb->freezing)
        return;
    else if (sb->failure.code != ERR_NONE && !sb->link && !sb->frozen)
        stop_now(sb);
    else if (wants_frozen != sb->frozen)
        freeze(sb);
    else if (sandbox_is(sb, SB_READY) && wants_frozen)
        sandbox_outcome(sb, SB_PAUSED, sb->wanted, &as_asked);
    else if (!sb->link && !sb->frozen && !(sandbox_is(sb, SB_READY) && sandbox_is_dormant(sb)))
        sandbox_connect(sb);
    else if (!sb->link && sb->frozen && !sandbox_is_dormant(sb)) /* found by a new daemon */
        sandbox_watch_exit(sb);
    else if (sandbox_is(sb, SB_PAUSED) && !wants_frozen && sb->linked) /* it can be asked */
        sandbox_outcome(sb, SB_READY, sb->wanted, &as_asked);
}

/* Has a restart brought it as far as it goes before the daemon listens? */
static void look_at_recovery(struct sandbox *sb) {
    bool waits_for_guest = sandbox_is(sb, SB_READY) && sb->presence == PRESENCE_UP && !sb->linked &&
                           !sb->frozen && !sandbox_is_dormant(sb) &&
                           !sb->registry->recovery_timed_out;
    if (!sb->recovering || waits_for_guest || sb->recorded.on_way > 0 ||
        (sb->presence == PRESENCE_ENDING && !sb->instance) ||
        (sandbox_is(sb, SB_READY) && sb->presence == PRESENCE_NONE))
        return;
    sb->recovering = false;
    registry_recovered_one(sb->registry);
}

void sandbox_converge(struct sandbox *sb) {
    if (sb->recorded.on_way > 0 || sb->registry->closing || !sb->driver)
        return;
    if (sandbox_is(sb, SB_DELETED)) {
        sandbox_failpoint(sb, OP_OUTCOME);
        struct registry *r = sb->registry;
        sandbox_free(sb);
        registry_look(r);
        return;
    }
    if (sandbox_settled(sb))
        sandbox_failpoint(sb, OP_OUTCOME);
    if (sb->wanted == WANTED_DELETE)
        to_delete(sb);
    else if (sandbox_is(sb, SB_FAILED) || sandbox_is(sb, SB_STOPPED))
        registry_look(sb->registry);
    else if (sb->wanted == WANTED_STOP)
        to_stop(sb);
    else
        to_run(sb);
    look_at_recovery(sb);
}
