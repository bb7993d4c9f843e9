#include "core/sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fd.h"
#include "core/exec/exec_impl.h"
#include "core/registry/reserve.h"
#include "core/sandbox/sandbox_impl.h"

#define AGAIN_US 1000000

void sandbox_failpoint(const struct sandbox *sb, enum sandbox_step step) {
    if (sb->request.op != OP_NONE)
        failpoint(
            (enum failpoint_id)(FAIL_CREATE_INTENT + ((int)sb->request.op - 1) * 6 + (int)step));
}

/* --- what it says of itself --- */

const Berm__V1__Sandbox *sandbox_record(const struct sandbox *sb) {
    sb->record->running_execs = sb->n_running;
    return sb->record;
}

void sandbox_put_live(const struct sandbox *sb, Berm__V1__Sandbox *copy) {
    copy->running_execs = sb->n_running;
    copy->last_activity_unix_ms = sb->record->last_activity_unix_ms;
    copy->idle_due_unix_ms = sb->record->idle_due_unix_ms;
}

const struct recorded *sandbox_recorded(const struct sandbox *sb) {
    return &sb->recorded;
}

uint64_t sandbox_number(const struct sandbox *sb) {
    return sb->number;
}

struct registry *sandbox_registry(const struct sandbox *sb) {
    return sb->registry;
}

int sandbox_check_incarnation(const struct sandbox *sb, uint64_t asked, struct err *e) {
    if (asked == 0 || asked == sb->record->incarnation)
        return 0;
    err_set(e, ERR_SANDBOX_STALE, "%s is in incarnation %llu, not %llu", sb->record->sandbox_id,
            (unsigned long long)sb->record->incarnation, (unsigned long long)asked);
    err_number(e, "incarnation", (int64_t)sb->record->incarnation);
    err_number(e, "asked_incarnation", (int64_t)asked);
    return err_about(e, "sandbox_id", sb->record->sandbox_id);
}

/* Also while the record of its end is on its way to the store. */
static bool is_going(const struct sandbox *sb) {
    return sandbox_is(sb, SB_DELETING) || sandbox_is(sb, SB_DELETED);
}

/* The error of a call that needs the sandbox in another state. */
int sandbox_not_there(const struct sandbox *sb, struct err *e) {
    static const struct {
        enum err_code code;
        const char *text;
    } rows[] = {
        [SB_PENDING] = {ERR_SANDBOX_NOT_READY, "is being made"},
        [SB_READY] = {ERR_SANDBOX_NOT_READY, "is running"},
        [SB_PAUSED] = {ERR_SANDBOX_PAUSED, "is paused"},
        [SB_STOPPING] = {ERR_SANDBOX_NOT_READY, "is being stopped"},
        [SB_STOPPED] = {ERR_SANDBOX_STOPPED, "is stopped"},
        [SB_FAILED] = {ERR_SANDBOX_FAILED, "has failed"},
        [SB_DELETING] = {ERR_SANDBOX_DELETED, "is being deleted"},
        [SB_DELETED] = {ERR_SANDBOX_DELETED, "is deleted"},
    };
    const char *id = sb->record->sandbox_id;
    err_set(e, rows[sb->record->state].code, "%s %s", id, rows[sb->record->state].text);
    return err_about(e, "sandbox_id", id);
}

int sandbox_check_driver(const struct sandbox *sb, struct err *e) {
    if (sb->driver)
        return 0;
    err_set(e, ERR_DRIVER_UNAVAILABLE, "the driver \"%s\" of %s is not loaded",
            sb->record->spec->driver, sb->record->sandbox_id);
    return err_about(e, "sandbox_id", sb->record->sandbox_id);
}

/* What every change asks first. */
static int check_changeable(const struct sandbox *sb, uint64_t incarnation, struct err *e) {
    int r = sandbox_check_incarnation(sb, incarnation, e);
    return r < 0 ? r : sandbox_check_driver(sb, e);
}

int sandbox_check_ready(const struct sandbox *sb, uint64_t incarnation, struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (!sandbox_is(sb, SB_READY))
        return sandbox_not_there(sb, e);
    if (sb->goal == GOAL_PAUSE) {
        err_set(e, ERR_SANDBOX_PAUSED, "%s is being paused", sb->record->sandbox_id);
        return err_about(e, "sandbox_id", sb->record->sandbox_id);
    }
    return 0;
}

int sandbox_check_change(const struct sandbox *sb, uint64_t incarnation, struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r == 0 && (sandbox_is(sb, SB_FAILED) || is_going(sb)))
        r = sandbox_not_there(sb, e);
    return r;
}

/* --- events and states --- */

void sandbox_event_init(const struct sandbox *sb, Berm__V1__Event *event, Berm__V1__Actor *actor,
                        const struct caller *who, bool by_sandbox, const char *request_id) {
    berm__v1__event__init(event);
    berm__v1__actor__init(actor);
    actor->kind = who          ? BERM__V1__ACTOR_KIND__ACTOR_KIND_CALLER
                  : by_sandbox ? BERM__V1__ACTOR_KIND__ACTOR_KIND_SANDBOX
                               : BERM__V1__ACTOR_KIND__ACTOR_KIND_DAEMON;
    if (who)
        actor->identity = (char *)who->identity;
    event->actor = actor;
    event->sandbox_id = sb->record->sandbox_id;
    event->incarnation = sb->record->incarnation;
    event->owner = sb->record->owner;
    if (request_id)
        event->request_id = (char *)request_id;
}

/* A copy the record owns; the empty string when memory is short, which the entry then notices. */
static void set_text(char **field, const char *text) {
    if (*field != protobuf_c_empty_string)
        free(*field);
    char *copy = text[0] ? strdup(text) : NULL;
    *field = copy ? copy : (char *)protobuf_c_empty_string;
}

static void set_reason(Berm__V1__Sandbox *record, const struct sandbox_why *why) {
    if (!record->reason && !(record->reason = malloc(sizeof *record->reason)))
        return;
    if (record->reason->base.descriptor != &berm__v1__state_reason__descriptor)
        berm__v1__state_reason__init(record->reason);
    record->reason->cause = (Berm__V1__StateCause)why->cause;
    set_text(&record->reason->code, why->e ? err_face(why->e->code)->name : "");
    set_text(&record->reason->message, why->e ? why->e->text : "");
}

void sandbox_put(struct sandbox *sb, struct entry *t) {
    bool has_own = strcmp(sb->instance_id, sb->record->sandbox_id) == 0;
    entry_put_sandbox(t, &sb->recorded, sb->record,
                      &(struct db_sandbox){.number = sb->number,
                                           .wanted = sb->goal,
                                           .slot = sb->slot,
                                           .instance = str_of(has_own ? "" : sb->instance_id),
                                           .driver = str_of(sb->record->spec->driver)});
}

void sandbox_enter(struct sandbox *sb, struct entry *t, int state, const struct sandbox_why *why) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__SandboxStateEvent change = BERM__V1__SANDBOX_STATE_EVENT__INIT;
    Berm__V1__Sandbox *record = sb->record;
    Berm__V1__SandboxSpec *spec = record->spec;
    sandbox_event_init(sb, &event, &actor, why->who, why->by_sandbox, why->request_id);
    change.previous = record->state;
    record->state = change.state = (Berm__V1__SandboxState)state;
    record->state_changed_unix_ms = clock_unix_ms();
    set_reason(record, why);
    change.reason = record->reason;
    change.n_labels = spec->n_labels;
    change.labels = spec->labels;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_SANDBOX_STATE;
    event.body_case = BERM__V1__EVENT__BODY_SANDBOX_STATE;
    event.sandbox_state = &change;
    record->changed_sequence = entry_event(t, &event, spec->n_labels, spec->labels);
    record->running_execs = 0; /* counted, not recorded */
    if (state == SB_PAUSED)
        exec_put_running(sb, t); /* nobody can ask the guest until it goes on */
    sandbox_put(sb, t);
}

void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_goal goal,
                     const struct sandbox_why *why) {
    struct entry *t = ledger_begin(sb->registry->env.ledger);
    if (!t) {
        deadline_set(sb->registry->env.deadlines, &sb->again, clock_us() + AGAIN_US);
        return;
    }
    sandbox_set_goal(sb, goal);
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
    sandbox_look_at_waits(sb);
    if (sb->n_running > 0 && (!sandbox_is(sb, SB_READY) || sb->goal == GOAL_PAUSE))
        exec_wake_starting(sb);
    sandbox_lifetime_look(sb);
    reserve_watch(sb);
    sandbox_converge(sb);
}

/* The store failed. What was only intended is forgotten; what has happened is seen again by converge. */
static void on_reverted(struct recorded *r) {
    struct sandbox *sb = container_of(r, struct sandbox, recorded);
    if (!r->durable) {
        sandbox_free(sb);
        return;
    }
    Berm__V1__Sandbox *record = berm__v1__sandbox__unpack(NULL, r->n_durable, r->durable);
    if (record) {
        map_remove(&sb->registry->sandboxes, &sb->by_id); /* the key lies in the old record */
        berm__v1__sandbox__free_unpacked(sb->record, NULL);
        sb->record = record;
        map_add(&sb->registry->sandboxes, &sb->by_id, record->sandbox_id);
    }
    sandbox_restore_goal(sb, (enum sandbox_goal)r->durable_extra);
    if (sb->instance_state == INST_REMOVING)
        sandbox_set_instance(sb, INST_NONE); /* its files may have to be removed once more */
    deadline_set(sb->registry->env.deadlines, &sb->again, clock_us() + AGAIN_US);
}

static const struct recorded_ops recorded_ops = {on_durable, on_reverted};

/* --- life of the object --- */

/* The guest did not take its settings, or did not end, in time. */
static void on_guest_deadline(struct deadline *d) {
    struct sandbox *sb = container_of(d, struct sandbox, guest_deadline);
    if (sb->instance_state != INST_UP && sb->instance_state != INST_SHUTDOWN)
        return;
    if (sandbox_is(sb, SB_PENDING) && !sandbox_is_configured(sb)) {
        err_set(&sb->failure, ERR_GUEST_LOST, "the guest did not take its settings in time");
        sandbox_converge(sb);
    } else {
        sandbox_set_instance(sb, INST_STOPPING);
        instance_stop(sb->instance);
    }
}

struct sandbox *sandbox_new(struct registry *r, struct driver *driver, Berm__V1__Sandbox *record,
                            uint64_t number, uint64_t slot, struct str instance) {
    struct sandbox *sb = calloc(1, sizeof *sb);
    if (!sb)
        return NULL;
    sb->registry = r;
    sb->record = record;
    sb->number = number;
    sb->driver = driver;
    sb->slot = slot;
    sb->dir_fd = -1;
    instance = instance.n > 0 ? instance : str_of(record->sandbox_id);
    snprintf(sb->instance_id, sizeof sb->instance_id, "%.*s", (int)instance.n, instance.p);
    sb->recorded.ops = &recorded_ops;
    list_init(&sb->execs);
    list_init(&sb->waits);
    list_init(&sb->measures);
    list_init(&sb->files);
    list_init(&sb->in_registry);
    list_init(&sb->in_dormant);
    guest_wait_init(&sb->relink.configure_wait, NULL);
    deadline_init(&sb->again, on_again);
    deadline_init(&sb->guest_deadline, on_guest_deadline);
    sandbox_lifetime_init(sb);
    exec_cgroup_ahead_init(sb);
    map_add(&r->sandboxes, &sb->by_id, record->sandbox_id);
    list_push_back(&r->all, &sb->in_registry);
    return sb;
}

/* One that we have written: nothing asks later whether these are there. */
static bool is_record(const Berm__V1__Sandbox *record, const struct db_sandbox *row) {
    return record && record->spec && str_is(row->id, str_of(record->sandbox_id)) &&
           record->state >= SB_PENDING && record->state <= SB_DELETED && row->wanted >= GOAL_RUN &&
           row->wanted <= GOAL_DELETE;
}

struct sandbox *sandbox_restore(struct registry *r, const struct db_sandbox *row) {
    char name[64];
    Berm__V1__Sandbox *record =
        berm__v1__sandbox__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    snprintf(name, sizeof name, "%.*s", (int)row->driver.n, row->driver.p);
    struct driver *d = env_driver(&r->env, name);
    struct sandbox *sb = is_record(record, row) && (!d || driver_keep_slot(d, row->slot))
                             ? sandbox_new(r, d, record, row->number, row->slot, row->instance)
                             : NULL;
    if (!sb) {
        if (record)
            berm__v1__sandbox__free_unpacked(record, NULL);
        return NULL;
    }
    sandbox_restore_goal(sb, (enum sandbox_goal)row->wanted);
    sb->n_started = 1; /* how many there were is not known: look once */
    sb->recorded.durable_extra = row->wanted;
    sb->recorded.durable = malloc(row->record.n ? row->record.n : 1);
    if (sb->recorded.durable) {
        memcpy(sb->recorded.durable, row->record.p, row->record.n);
        sb->recorded.n_durable = row->record.n;
    }
    record->last_activity_unix_ms =
        clock_unix_ms(); /* nobody knows better, and it is never early */
    return sb;
}

void sandbox_free(struct sandbox *sb) {
    struct registry *r = sb->registry;
    for (struct list *node; (node = list_pop_front(&sb->execs));)
        exec_drop(container_of(node, struct exec, in_sandbox));
    for (struct list *node; (node = list_pop_front(&sb->waits));) {
        struct sandbox_wait *w = container_of(node, struct sandbox_wait, in_sandbox);
        deadline_clear(w->deadlines, &w->deadline);
        w->on_done(w, sb->record);
    }
    sandbox_update_drop(sb);
    sandbox_measures_end(sb);
    exec_cgroup_ahead_done(sb);
    sandbox_disconnect(sb);
    imports_end(&sb->imports);
    free(sb->tool_path);
    if (sb->instance)
        instance_close(sb->instance);
    if (sb->instance && sb->claim.is_active) /* nobody will know of it */
        driver_discard(sb->driver, sb->instance_id, true, NULL, NULL);
    deadline_clear(r->env.deadlines, &sb->again);
    deadline_clear(r->env.deadlines, &sb->guest_deadline);
    deadline_clear(r->env.deadlines, &sb->due);
    map_remove(&r->sandboxes, &sb->by_id);
    list_remove(&sb->in_registry);
    list_remove(&sb->in_dormant);
    if (sb->driver)
        driver_give_slot_back(sb->driver, sb->slot);
    if (sb->transcript)
        transcript_close(sb->transcript);
    if (sb->dir_fd >= 0)
        close(sb->dir_fd);
    free(sb->recorded.durable);
    berm__v1__sandbox__free_unpacked(sb->record, NULL);
    free(sb);
}

/* --- changes --- */

/* Who holds it is known from here on, also to a daemon that comes between this and the outcome; a caller's
 * pause outlasts the reserve's. */
static void put_intent(struct sandbox *sb, struct entry *t, const struct change *c) {
    if (c->e || reserve_holds(sb))
        set_reason(sb->record, &(struct sandbox_why){.cause = sb->request.cause, .e = c->e});
    sandbox_put(sb, t);
}

/* Commits where the sandbox is on its way to: with a new state and its event, or (state 0) the intent
 * alone. */
static int intend(struct sandbox *sb, enum sandbox_op op, enum sandbox_goal goal, int state,
                  const struct change *c, struct err *e) {
    struct entry *t = ledger_begin(sb->registry->env.ledger);
    if (!t)
        return change_refused(e);
    sandbox_set_goal(sb, goal);
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
        put_intent(sb, t, c);
    entry_put_request(t, c->key, sb->record->sandbox_id, (struct str){0});
    sandbox_failpoint(sb, OP_INTENT);
    ledger_commit(t, c->wait);
    return 0;
}

/* The sandbox is, or is on its way, where it shall be: only the request id is to be remembered. */
static int nothing_to_do(struct sandbox *sb, const struct change *c, struct err *e) {
    struct entry *t = ledger_begin(sb->registry->env.ledger);
    if (!t)
        return change_refused(e);
    entry_put_request(t, c->key, sb->record->sandbox_id, (struct str){0});
    ledger_commit(t, c->wait);
    return 0;
}

int sandbox_stop(struct sandbox *sb, uint64_t incarnation, int64_t grace_ms, const struct change *c,
                 struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (sandbox_is(sb, SB_STOPPING) || sandbox_is(sb, SB_STOPPED))
        return nothing_to_do(sb, c, e);
    if (sandbox_is(sb, SB_FAILED) || is_going(sb))
        return sandbox_not_there(sb, e);
    sb->request.grace_ms = grace_ms;
    return intend(sb, OP_STOP, GOAL_STOP, SB_STOPPING, c, e);
}

int sandbox_start(struct sandbox *sb, uint64_t incarnation, const struct change *c, struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (sandbox_is(sb, SB_PENDING) || (sandbox_is(sb, SB_READY) && sb->goal == GOAL_RUN))
        return nothing_to_do(sb, c, e);
    if (!sandbox_is(sb, SB_STOPPED))
        return sandbox_not_there(sb, e);
    r = sandbox_check_new(sb->registry, sb->record->spec, e);
    if (r < 0)
        return err_about(e, "sandbox_id", sb->record->sandbox_id);
    sb->record->incarnation++;
    sb->failure = (struct err){0};
    r = intend(sb, OP_START, GOAL_RUN, SB_PENDING, c, e);
    if (r < 0)
        sb->record->incarnation--;
    return r;
}

int sandbox_pause(struct sandbox *sb, uint64_t incarnation, const struct change *c, struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (sb->goal == GOAL_PAUSE && !reserve_holds(sb) &&
        (sandbox_is(sb, SB_PAUSED) || sandbox_is(sb, SB_READY)))
        return nothing_to_do(sb, c, e);
    if (!sandbox_is(sb, SB_READY) && !sandbox_is(sb, SB_PAUSED))
        return sandbox_not_there(sb, e);
    if (!sb->driver->pause)
        return err_set(e, ERR_UNSUPPORTED, "the driver %s cannot pause a sandbox",
                       sb->driver->ops->name);
    return intend(sb, OP_PAUSE, GOAL_PAUSE, 0, c, e);
}

int sandbox_resume(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                   struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (sb->goal == GOAL_RUN && (sandbox_is(sb, SB_PAUSED) || sandbox_is(sb, SB_READY)))
        return nothing_to_do(sb, c, e);
    if (!sandbox_is(sb, SB_READY) && !sandbox_is(sb, SB_PAUSED))
        return sandbox_not_there(sb, e);
    if (reserve_check(sb, e) < 0)
        return -(int)e->code;
    return intend(sb, OP_RESUME, GOAL_RUN, 0, c, e);
}

int sandbox_delete(struct sandbox *sb, uint64_t incarnation, const struct change *c,
                   struct err *e) {
    int r = check_changeable(sb, incarnation, e);
    if (r < 0)
        return r;
    if (is_going(sb))
        return nothing_to_do(sb, c, e);
    return intend(sb, OP_DELETE, GOAL_DELETE, SB_DELETING, c, e);
}
