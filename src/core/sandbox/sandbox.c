#include "core/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fd.h"
#include "core/sandbox/sandbox_impl.h"

#define AGAIN_US 1000000

void sandbox_failpoint(const struct sandbox *sb, enum sandbox_step step) {
    if (sb->request.op != OP_NONE)
        failpoint(
            (enum failpoint_id)(FAIL_CREATE_INTENT + ((int)sb->request.op - 1) * 6 + (int)step));
}

/* --- accessors --- */

const Berm__V1__Sandbox *sandbox_record(const struct sandbox *sb) {
    sb->box.record->running_execs = sb->execs.n_running;
    return sb->box.record;
}

void sandbox_put_live(const struct sandbox *sb, Berm__V1__Sandbox *copy) {
    copy->running_execs = sb->execs.n_running;
    copy->last_activity_unix_ms = sb->box.record->last_activity_unix_ms;
    copy->idle_due_unix_ms = sb->box.record->idle_due_unix_ms;
}

const struct recorded *sandbox_recorded(const struct sandbox *sb) {
    return &sb->recorded;
}

int sandbox_check_ready(const struct sandbox *sb, uint64_t incarnation, struct err *e) {
    return box_check_ready(&sb->box, incarnation, e);
}

int sandbox_check_incarnation(const struct sandbox *sb, uint64_t asked, struct err *e) {
    return box_check_incarnation(&sb->box, asked, e);
}

struct execs *sandbox_execs(struct sandbox *sb) {
    return &sb->execs;
}

struct files *sandbox_files(struct sandbox *sb) {
    return &sb->files;
}

uint64_t sandbox_output_bytes(struct sandbox *sb) {
    return execs_output_bytes(&sb->execs);
}

bool sandbox_needs_copies(struct sandbox *sb) {
    return !copies_are_done(&sb->copies);
}

uint64_t sandbox_number(const struct sandbox *sb) {
    return sb->number;
}

/* Returns whether the sandbox is being deleted, including while DELETED is being committed. */
static bool sandbox_is_going(const struct sandbox *sb) {
    return box_is(&sb->box, SB_DELETING) || box_is(&sb->box, SB_DELETED);
}

int sandbox_check_change(const struct sandbox *sb, uint64_t incarnation, struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r == 0 && (box_is(&sb->box, SB_FAILED) || sandbox_is_going(sb)))
        r = box_refuse(&sb->box, e);
    return r;
}

/* --- events and states --- */

/* Sets a string of the record to a copy. When memory is short, sets the empty string; the entry
 * then fails too. */
static void sandbox_set_text(char **field, const char *text) {
    if (*field != protobuf_c_empty_string)
        free(*field);
    char *copy = text[0] ? strdup(text) : NULL;
    *field = copy ? copy : (char *)protobuf_c_empty_string;
}

static void sandbox_set_reason(Berm__V1__Sandbox *record, const struct sandbox_why *why) {
    if (!record->reason && !(record->reason = malloc(sizeof *record->reason)))
        return;
    if (record->reason->base.descriptor != &berm__v1__state_reason__descriptor)
        berm__v1__state_reason__init(record->reason);
    record->reason->cause = (Berm__V1__StateCause)why->cause;
    sandbox_set_text(&record->reason->code, why->e ? err_face(why->e->code)->name : "");
    sandbox_set_text(&record->reason->message, why->e ? why->e->text : "");
}

void sandbox_put(struct sandbox *sb, struct entry *t) {
    bool has_own = strcmp(sb->instance_id, sb->box.record->sandbox_id) == 0;
    entry_put_sandbox(t, &sb->recorded, sb->box.record,
                      &(struct db_sandbox){.number = sb->number,
                                           .wanted = sb->box.goal,
                                           .slot = sb->slot,
                                           .instance = str_of(has_own ? "" : sb->instance_id),
                                           .driver = str_of(sb->box.record->spec->driver)});
}

void sandbox_enter(struct sandbox *sb, struct entry *t, int state, const struct sandbox_why *why) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__SandboxStateEvent change = BERM__V1__SANDBOX_STATE_EVENT__INIT;
    Berm__V1__Sandbox *record = sb->box.record;
    Berm__V1__SandboxSpec *spec = record->spec;
    box_event_init(&sb->box, &event, &actor, why->who, why->by_sandbox, why->request_id);
    change.previous = record->state;
    record->state = change.state = (Berm__V1__SandboxState)state;
    record->state_changed_unix_ms = clock_unix_ms();
    sandbox_set_reason(record, why);
    change.reason = record->reason;
    change.n_labels = spec->n_labels;
    change.labels = spec->labels;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_SANDBOX_STATE;
    event.body_case = BERM__V1__EVENT__BODY_SANDBOX_STATE;
    event.sandbox_state = &change;
    record->changed_sequence = entry_event(t, &event, spec->n_labels, spec->labels);
    record->running_execs = 0; /* computed for each reply, not stored */
    if (state == SB_PAUSED)
        execs_put_running(&sb->execs, t); /* now, because a frozen guest does not answer */
    sandbox_put(sb, t);
}

void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_goal goal,
                     const struct sandbox_why *why) {
    struct entry *t = ledger_begin(sb->box.env->ledger);
    if (!t) {
        deadline_set(sb->box.env->deadlines, &sb->again, clock_us() + AGAIN_US);
        return;
    }
    box_set_goal(&sb->box, goal);
    sandbox_enter(sb, t, state, why);
    ledger_commit(t, NULL);
}

static void on_again(struct deadline *d) {
    sandbox_converge(container_of(d, struct sandbox, again));
}

static void on_durable(struct recorded *r) {
    struct sandbox *sb = container_of(r, struct sandbox, recorded);
    if (sb->updates.is_committing)
        failpoint(FAIL_UPDATE_COMMIT);
    sb->updates.is_committing = false;
    sandbox_waits_check(sb);
    if (sb->execs.n_running > 0 && (!box_is(&sb->box, SB_READY) || sb->box.goal == GOAL_PAUSE))
        execs_wake_starting(&sb->execs);
    sandbox_lifetime_update(sb);
    sb->all->ops->on_durable(sb->all, sb);
    sandbox_converge(sb);
}

/* Called when a commit failed. Reverts the record. If an outcome has already happened,
 * sandbox_converge records it again. */
static void on_reverted(struct recorded *r) {
    struct sandbox *sb = container_of(r, struct sandbox, recorded);
    if (!r->durable) {
        sandbox_free(sb);
        return;
    }
    Berm__V1__Sandbox *record = berm__v1__sandbox__unpack(NULL, r->n_durable, r->durable);
    if (record) {
        map_remove(&sb->all->by_id, &sb->by_id); /* the key points into the old record */
        berm__v1__sandbox__free_unpacked(sb->box.record, NULL);
        sb->box.record = record;
        map_add(&sb->all->by_id, &sb->by_id, record->sandbox_id);
    }
    box_restore_goal(&sb->box, (enum sandbox_goal)r->durable_extra);
    if (sb->box.instance_state == INST_REMOVING)
        box_set_instance(&sb->box, INST_NONE); /* sandbox_converge then removes the files again */
    deadline_set(sb->box.env->deadlines, &sb->again, clock_us() + AGAIN_US);
}

static const struct recorded_ops recorded_ops = {on_durable, on_reverted};

/* --- life of the object --- */

static const struct box_ops box_ops = {sandbox_wake, sandbox_touch};

static void on_copied(struct copies *copies, const struct err *e) {
    struct sandbox *sb = container_of(copies, struct sandbox, copies);
    if (e)
        sb->failure = *e;
    sandbox_converge(sb);
}

/* Called when the guest did not accept its settings, or did not end, in time. */
static void on_guest_deadline(struct deadline *d) {
    struct sandbox *sb = container_of(d, struct sandbox, guest_deadline);
    if (sb->box.instance_state != INST_UP && sb->box.instance_state != INST_SHUTDOWN)
        return;
    if (box_is(&sb->box, SB_PENDING) && !box_is_configured(&sb->box)) {
        err_set(&sb->failure, ERR_GUEST_LOST, "the guest did not take its settings in time");
        sandbox_converge(sb);
    } else {
        box_set_instance(&sb->box, INST_STOPPING);
        instance_stop(sb->box.instance);
    }
}

struct sandbox *sandbox_new(struct sandboxes *all, struct driver *driver, Berm__V1__Sandbox *record,
                            uint64_t number, uint64_t slot, struct str instance) {
    struct sandbox *sb = calloc(1, sizeof *sb);
    if (!sb)
        return NULL;
    sb->all = all;
    sb->box.ops = &box_ops;
    sb->box.env = all->env;
    sb->box.execs = &sb->execs;
    sb->box.record = record;
    sb->number = number;
    sb->box.driver = driver;
    sb->slot = slot;
    sb->box.dir_fd = -1;
    instance = instance.n > 0 ? instance : str_of(record->sandbox_id);
    snprintf(sb->instance_id, sizeof sb->instance_id, "%.*s", (int)instance.n, instance.p);
    sb->recorded.ops = &recorded_ops;
    list_init(&sb->waits);
    list_init(&sb->measures);
    list_init(&sb->in_all);
    list_init(&sb->in_dormant);
    guest_wait_init(&sb->relink.configure_wait, NULL);
    deadline_init(&sb->again, on_again);
    deadline_init(&sb->guest_deadline, on_guest_deadline);
    sandbox_lifetime_init(sb);
    execs_init(&sb->execs, &sb->box, &all->execs);
    files_init(&sb->files, &sb->box);
    sb->copies = (struct copies){.box = &sb->box, .on_done = on_copied};
    map_add(&all->by_id, &sb->by_id, record->sandbox_id);
    list_push_back(&all->list, &sb->in_all);
    return sb;
}

/* Returns whether the record has the parts that other code uses without a check. */
static bool sandbox_is_record(const Berm__V1__Sandbox *record, const struct db_sandbox *row) {
    return record && record->spec && str_is(row->id, str_of(record->sandbox_id)) &&
           record->state >= SB_PENDING && record->state <= SB_DELETED && row->wanted >= GOAL_RUN &&
           row->wanted <= GOAL_DELETE;
}

struct sandbox *sandbox_restore(struct sandboxes *all, const struct db_sandbox *row) {
    char name[64];
    Berm__V1__Sandbox *record =
        berm__v1__sandbox__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    snprintf(name, sizeof name, "%.*s", (int)row->driver.n, row->driver.p);
    struct driver *d = env_driver(all->env, name);
    struct sandbox *sb = sandbox_is_record(record, row) && (!d || driver_keep_slot(d, row->slot))
                             ? sandbox_new(all, d, record, row->number, row->slot, row->instance)
                             : NULL;
    if (!sb) {
        if (record)
            berm__v1__sandbox__free_unpacked(record, NULL);
        return NULL;
    }
    box_restore_goal(&sb->box, (enum sandbox_goal)row->wanted);
    sb->execs.n_started = 1; /* the number since the last prune is unknown, so prune once */
    sb->recorded.durable_extra = row->wanted;
    sb->recorded.durable = malloc(row->record.n ? row->record.n : 1);
    if (sb->recorded.durable) {
        memcpy(sb->recorded.durable, row->record.p, row->record.n);
        sb->recorded.n_durable = row->record.n;
    }
    record->last_activity_unix_ms =
        clock_unix_ms(); /* the last activity is not stored; now is never too early */
    return sb;
}

void sandbox_free(struct sandbox *sb) {
    struct deadlines *deadlines = sb->box.env->deadlines;
    execs_done(&sb->execs);
    sandbox_waits_end(sb);
    sandbox_update_drop(sb);
    sandbox_measures_end(sb);
    sandbox_disconnect(sb);
    imports_end(&sb->imports);
    free(sb->tool_path);
    if (sb->box.instance)
        instance_close(sb->box.instance);
    /* Discard the parked instance, because no record names it. */
    if (sb->box.instance && sb->claim.is_active)
        driver_discard(sb->box.driver, sb->instance_id, true, NULL, NULL);
    deadline_clear(deadlines, &sb->again);
    deadline_clear(deadlines, &sb->guest_deadline);
    deadline_clear(deadlines, &sb->due);
    map_remove(&sb->all->by_id, &sb->by_id);
    list_remove(&sb->in_all);
    list_remove(&sb->in_dormant);
    if (sb->box.driver)
        driver_give_slot_back(sb->box.driver, sb->slot);
    if (sb->transcript)
        transcript_close(sb->transcript);
    if (sb->box.dir_fd >= 0)
        close(sb->box.dir_fd);
    free(sb->recorded.durable);
    berm__v1__sandbox__free_unpacked(sb->box.record, NULL);
    free(sb);
}

/* --- changes --- */

/* Stores the reason of the pause with the intent, so that a daemon that restarts before the outcome
 * still has the reason. A pause by a caller replaces a pause by the reserve. */
static void sandbox_put_intent(struct sandbox *sb, struct entry *t, const struct change *c) {
    if (c->e || sandbox_is_held(sb))
        sandbox_set_reason(sb->box.record,
                           &(struct sandbox_why){.cause = sb->request.cause, .e = c->e});
    sandbox_put(sb, t);
}

/* Commits a new goal, together with a new state and its event unless `state` is 0. */
static int sandbox_intend(struct sandbox *sb, enum sandbox_op op, enum sandbox_goal goal, int state,
                          const struct change *c, struct err *e) {
    struct entry *t = ledger_begin(sb->box.env->ledger);
    if (!t)
        return change_refused(e);
    box_set_goal(&sb->box, goal);
    sb->request.op = op;
    sb->request.cause = c->cause ? c->cause : BERM__V1__STATE_CAUSE__STATE_CAUSE_REQUESTED;
    sb->request.who = c->who ? *c->who : (struct caller){0};
    snprintf(sb->request.request_id, sizeof sb->request.request_id, "%s",
             c->key ? c->key->request_id : "");
    if (state != 0)
        sandbox_enter(sb, t, state,
                      &(struct sandbox_why){.cause = sb->request.cause,
                                            .who = c->who,
                                            .request_id = c->key ? c->key->request_id : NULL});
    else
        sandbox_put_intent(sb, t, c);
    entry_put_request(t, c->key, sb->box.record->sandbox_id, (struct str){0});
    sandbox_failpoint(sb, OP_INTENT);
    ledger_commit(t, c->wait);
    return 0;
}

/* Only stores the request id, because the sandbox already has this goal. */
static int sandbox_keep_request(struct sandbox *sb, const struct change *c, struct err *e) {
    struct entry *t = ledger_begin(sb->box.env->ledger);
    if (!t)
        return change_refused(e);
    entry_put_request(t, c->key, sb->box.record->sandbox_id, (struct str){0});
    ledger_commit(t, c->wait);
    return 0;
}

int sandbox_stop(struct sandbox *sb, uint64_t incarnation, int64_t grace_ms, const struct change *c,
                 struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r < 0)
        return r;
    if (box_is(&sb->box, SB_STOPPING) || box_is(&sb->box, SB_STOPPED))
        return sandbox_keep_request(sb, c, e);
    if (box_is(&sb->box, SB_FAILED) || sandbox_is_going(sb))
        return box_refuse(&sb->box, e);
    sb->request.grace_ms = grace_ms;
    return sandbox_intend(sb, OP_STOP, GOAL_STOP, SB_STOPPING, c, e);
}

int sandbox_start(struct sandbox *sb, uint64_t incarnation, const struct change *c, struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r < 0)
        return r;
    if (box_is(&sb->box, SB_PENDING) || (box_is(&sb->box, SB_READY) && sb->box.goal == GOAL_RUN))
        return sandbox_keep_request(sb, c, e);
    if (!box_is(&sb->box, SB_STOPPED))
        return box_refuse(&sb->box, e);
    r = sandbox_check_new(sb->box.env, sb->box.record->spec, e);
    if (r < 0)
        return err_about(e, "sandbox_id", sb->box.record->sandbox_id);
    sb->box.record->incarnation++;
    sb->failure = (struct err){0};
    r = sandbox_intend(sb, OP_START, GOAL_RUN, SB_PENDING, c, e);
    if (r < 0)
        sb->box.record->incarnation--;
    return r;
}

int sandbox_pause(struct sandbox *sb, uint64_t incarnation, const struct change *c, struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r < 0)
        return r;
    if (sb->box.goal == GOAL_PAUSE && !sandbox_is_held(sb) &&
        (box_is(&sb->box, SB_PAUSED) || box_is(&sb->box, SB_READY)))
        return sandbox_keep_request(sb, c, e);
    if (!box_is(&sb->box, SB_READY) && !box_is(&sb->box, SB_PAUSED))
        return box_refuse(&sb->box, e);
    if (!sb->box.driver->pause)
        return err_set(e, ERR_UNSUPPORTED, "the driver %s cannot pause a sandbox",
                       sb->box.driver->ops->name);
    return sandbox_intend(sb, OP_PAUSE, GOAL_PAUSE, 0, c, e);
}

int sandbox_resume(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                   struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r < 0)
        return r;
    if (sb->box.goal == GOAL_RUN && (box_is(&sb->box, SB_PAUSED) || box_is(&sb->box, SB_READY)))
        return sandbox_keep_request(sb, c, e);
    if (!box_is(&sb->box, SB_READY) && !box_is(&sb->box, SB_PAUSED))
        return box_refuse(&sb->box, e);
    if (sandbox_reserve_check(sb, e) < 0)
        return -(int)e->code;
    return sandbox_intend(sb, OP_RESUME, GOAL_RUN, 0, c, e);
}

int sandbox_delete(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                   struct err *e) {
    int r = box_check_driver(&sb->box, incarnation, e);
    if (r < 0)
        return r;
    if (sandbox_is_going(sb))
        return sandbox_keep_request(sb, c, e);
    return sandbox_intend(sb, OP_DELETE, GOAL_DELETE, SB_DELETING, c, e);
}
