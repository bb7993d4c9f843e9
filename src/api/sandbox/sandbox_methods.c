/* sandbox_methods — the calls about one sandbox: create, get, update, stop, start, pause, resume,
 * delete.
 *
 * A change is a mutation (api/mutation.h). Once it is durable, the call waits up to wait_ms for the
 * sandbox to reach its goal, and replies with the sandbox when that record is durable. A read only
 * replies. */
#include <stdio.h>

#include "api/checks.h"
#include "api/methods.h"
#include "api/mutation.h"
#include "api/sandbox/sandbox_spec_check.h"
#include "api/subject.h"
#include "base/failpoint.h"
#include "core/imports/imports.h"

struct sandbox_call;

struct sandbox_call_kind {
    enum failpoint_id reply; /* failpoint right before the reply of a change */
    bool creates;            /* there is no sandbox yet */
    /* wait_ms waits for the deletion; a sandbox that is already deleted is a success */
    bool deletes;
    /* Optional. Runs before act. Returns 0 to act now, or 1 if act follows after
     * sandbox_call_open. */
    int (*prepare)(struct sandbox_call *sc, struct sandbox *sb, struct err *e);
    /* Makes the change; `sb` is NULL for a create. */
    int (*act)(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
               struct err *e);
};

struct sandbox_call {
    struct mutation mu; /* mu.subject_id is the sandbox; empty until a generated id is known */
    const struct sandbox_call_kind *kind;
    struct imports imports;      /* opens the host paths that the sandbox imports */
    Berm__V1__SandboxSpec *spec; /* the checked spec of a create; in the call's arena */
    struct sandbox_wait outcome;
    struct ledger_wait shown; /* waits until the record in the reply is durable */
    int64_t wait_ms;
};

/* Every response about one sandbox has the same two fields, so one struct serves for all. */
#define SAME_LAYOUT(type)                                                                        \
    _Static_assert(offsetof(type, sandbox) == offsetof(Berm__V1__GetSandboxResponse, sandbox) && \
                       offsetof(type, sequence) ==                                               \
                           offsetof(Berm__V1__GetSandboxResponse, sequence) &&                   \
                       sizeof(type) == sizeof(Berm__V1__GetSandboxResponse),                     \
                   #type)
SAME_LAYOUT(Berm__V1__CreateSandboxResponse);
SAME_LAYOUT(Berm__V1__UpdateSandboxResponse);
SAME_LAYOUT(Berm__V1__StopSandboxResponse);
SAME_LAYOUT(Berm__V1__StartSandboxResponse);
SAME_LAYOUT(Berm__V1__PauseSandboxResponse);
SAME_LAYOUT(Berm__V1__ResumeSandboxResponse);
SAME_LAYOUT(Berm__V1__DeleteSandboxResponse);

static struct sandbox_call *sandbox_call_of(struct mutation *mu) {
    return container_of(mu, struct sandbox_call, mu);
}

/* --- the reply --- */

static void sandbox_call_reply(struct sandbox_call *sc, const Berm__V1__Sandbox *record) {
    Berm__V1__GetSandboxResponse response;
    protobuf_c_message_init(sc->mu.call->method->response, &response);
    response.sandbox = (Berm__V1__Sandbox *)record;
    response.sequence = ledger_head(context_ledger(sc->mu.call));
    if (sc->kind->act)
        failpoint(sc->kind->reply);
    mutation_reply(&sc->mu, &response.base);
}

static void sandbox_call_show_deleted(struct sandbox_call *sc) {
    Berm__V1__Sandbox *record;
    struct err e;
    if (registry_find_deleted(context_registry(sc->mu.call), &sc->mu.caller, sc->mu.subject_id,
                              &record, &e) < 0) {
        mutation_fail(&sc->mu, &e);
        return;
    }
    sandbox_call_reply(sc, record);
    berm__v1__sandbox__free_unpacked(record, NULL);
}

static void sandbox_call_show(struct sandbox_call *sc) {
    struct sandbox *sb;
    struct err e;
    if (registry_find_sandbox(context_registry(sc->mu.call), &sc->mu.caller, sc->mu.subject_id, &sb,
                              &e) < 0)
        sandbox_call_show_deleted(sc);
    else if (!ledger_wait(context_ledger(sc->mu.call), sandbox_recorded(sb), &sc->shown))
        sandbox_call_reply(sc, sandbox_record(sb));
}

/* The entry is durable or was reverted. Check again, because another entry may have followed. */
static void sandbox_call_on_shown(struct ledger_wait *w, const struct err *e) {
    (void)e;
    sandbox_call_show(container_of(w, struct sandbox_call, shown));
}

static void sandbox_call_on_outcome(struct waiter *w) {
    sandbox_call_show(container_of(w, struct sandbox_call, outcome.waiter));
}

/* --- the change --- */

static void sandbox_call_wait(struct mutation *mu) {
    struct sandbox_call *sc = sandbox_call_of(mu);
    struct sandbox *sb;
    struct err e;
    if (sc->wait_ms == 0 || registry_find_sandbox(context_registry(mu->call), &mu->caller,
                                                  mu->subject_id, &sb, &e) < 0) {
        sandbox_call_show(sc);
        return;
    }
    sc->outcome.until_deleted = sc->kind->deletes;
    sandbox_wait(sb, &sc->outcome, sc->wait_ms, sandbox_call_on_outcome);
}

static int sandbox_call_find(struct sandbox_call *sc, struct sandbox **ret_sb, struct err *e) {
    *ret_sb = NULL;
    if (sc->kind->creates)
        return 0;
    return subject_find_sandbox(sc->mu.call, sc->mu.subject_id, "sandbox_id", ret_sb, e);
}

static int sandbox_call_act(struct sandbox_call *sc, struct err *e) {
    struct change change = mutation_change(&sc->mu);
    struct sandbox *sb;
    int r = sandbox_call_find(sc, &sb, e);
    if (r == 0)
        r = sc->kind->act(sc, sb, &change, e);
    if (r == 0) {
        mutation_keep(&sc->mu);
        return 0;
    }
    if (e->code != ERR_SANDBOX_DELETED || !sc->kind->deletes)
        return r;
    sandbox_call_show(sc);
    return 0;
}

static void sandbox_call_on_opened(struct imports *in, const struct err *failed) {
    struct sandbox_call *sc = container_of(in, struct sandbox_call, imports);
    struct err e = failed ? *failed : (struct err){0};
    imports_end(in);
    if (failed || sandbox_call_act(sc, &e) < 0)
        mutation_fail(&sc->mu, &e);
}

/* Opens the host paths of this spec, for a `prepare` function. Returns the result of
 * imports_begin. */
static int sandbox_call_open(struct sandbox_call *sc, const char *owner,
                             const Berm__V1__SandboxSpec *spec, bool with_copies, struct err *e) {
    return imports_begin(&sc->imports, registry_env(context_registry(sc->mu.call)), owner, spec,
                         with_copies, sandbox_call_on_opened, e);
}

static int sandbox_call_first(struct mutation *mu, struct err *e) {
    struct sandbox_call *sc = sandbox_call_of(mu);
    struct sandbox *sb;
    int r = 0;
    if (sc->kind->prepare) {
        r = sandbox_call_find(sc, &sb, e);
        if (r == 0)
            r = sc->kind->prepare(sc, sb, e);
    }
    return r == 0 ? sandbox_call_act(sc, e) : MIN(r, 0);
}

static int sandbox_call_repeat(struct mutation *mu, struct err *e) {
    (void)e;
    snprintf(mu->subject_id, sizeof mu->subject_id, "%s", mu->object_id.p);
    sandbox_call_wait(mu);
    return 0;
}

static void sandbox_call_release(struct mutation *mu) {
    struct sandbox_call *sc = sandbox_call_of(mu);
    imports_end(&sc->imports);
    sandbox_wait_cancel(&sc->outcome);
    ledger_wait_cancel(&sc->shown);
}

/* --- the call --- */

static void sandbox_call_begin(struct call *c, const ProtobufCMessage *m,
                               const struct sandbox_call_kind *kind, const char *id,
                               int64_t wait_ms) {
    static const struct mutation_kind mutation = {.subject_key = "sandbox_id",
                                                  .first = sandbox_call_first,
                                                  .repeat = sandbox_call_repeat,
                                                  .on_durable = sandbox_call_wait,
                                                  .release = sandbox_call_release};
    struct err e;
    if ((kind->creates ? check_new_id("sandbox_id", id, &e) : check_id("sandbox_id", id, &e)) < 0 ||
        check_wait(wait_ms, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    struct mutation *mu = mutation_new(c, m, &mutation, sizeof(struct sandbox_call));
    if (!mu)
        return;
    struct sandbox_call *sc = sandbox_call_of(mu);
    sc->kind = kind;
    sc->wait_ms = wait_ms;
    ledger_wait_init(&sc->shown, sandbox_call_on_shown);
    snprintf(mu->subject_id, sizeof mu->subject_id, "%s", id);
    c->state = mu;
    if (kind->act)
        mutation_begin(mu);
    else
        sandbox_call_show(sc);
}

static struct spec_rules sandbox_call_rules(const struct sandbox_call *sc, const char *driver) {
    struct registry *r = context_registry(sc->mu.call);
    const struct driver *d = registry_driver(r, driver);
    return (struct spec_rules){.limits = registry_limits(r),
                               .driver = d ? d : registry_driver(r, ""),
                               .no_driver = registry_no_driver(r)};
}

/* --- create --- */

static int create_prepare(struct sandbox_call *sc, struct sandbox *sb, struct err *e) {
    const Berm__V1__CreateSandboxRequest *m = (const void *)sc->mu.m;
    struct spec_rules rules = sandbox_call_rules(sc, m->spec ? m->spec->driver : "");
    (void)sb;
    int r = spec_check(&rules, m->spec, &sc->mu.call->arena, &sc->spec, e);
    return r < 0 ? r : sandbox_call_open(sc, sc->mu.caller.identity, sc->spec, true, e);
}

static int create_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                      struct err *e) {
    const Berm__V1__CreateSandboxRequest *m = (const void *)sc->mu.m;
    int r = registry_create_sandbox(context_registry(sc->mu.call), m->sandbox_id, sc->spec, change,
                                    &sb, e);
    if (r == 0)
        snprintf(sc->mu.subject_id, sizeof sc->mu.subject_id, "%s", sandbox_record(sb)->sandbox_id);
    return r;
}

static void create_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {
        .reply = FAIL_CREATE_REPLY, .creates = true, .prepare = create_prepare, .act = create_act};
    const Berm__V1__CreateSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_create = {.on_message = create_on_message,
                                           .on_cancel = mutation_cancel};

/* --- get --- */

static void get_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {0};
    const Berm__V1__GetSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, 0);
}

const struct handler api_sandbox_get = {.on_message = get_on_message, .on_cancel = mutation_cancel};

/* --- update --- */

static int update_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                      struct err *e) {
    const Berm__V1__UpdateSandboxRequest *m = (const void *)sc->mu.m;
    struct spec_rules rules = sandbox_call_rules(sc, sandbox_record(sb)->spec->driver);
    Berm__V1__SandboxSpec *spec;
    const char *parts[SPEC_PARTS];
    size_t n_parts;
    int r = spec_check_update(&rules, sandbox_record(sb)->spec, m, &sc->mu.call->arena, &spec,
                              parts, &n_parts, e);
    return r < 0 ? r : sandbox_update(sb, m->incarnation, spec, parts, n_parts, change, e);
}

static void update_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {.reply = FAIL_UPDATE_REPLY, .act = update_act};
    const Berm__V1__UpdateSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, 0);
}

const struct handler api_sandbox_update = {.on_message = update_on_message,
                                           .on_cancel = mutation_cancel};

/* --- stop and start --- */

static int stop_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                    struct err *e) {
    const Berm__V1__StopSandboxRequest *m = (const void *)sc->mu.m;
    return sandbox_stop(sb, m->incarnation, m->grace_ms, change, e);
}

static int stop_check_grace(int64_t grace_ms, struct err *e) {
    int64_t max = limit_table[LIMIT_GRACE_MAX].value;
    if (grace_ms >= -1 && grace_ms <= max)
        return 0;
    err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_GRACE_MAX, max,
              "grace_ms: must be between -1 and %lld, got %lld", (long long)max,
              (long long)grace_ms);
    return err_at(e, "grace_ms");
}

static void stop_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {.reply = FAIL_STOP_REPLY, .act = stop_act};
    const Berm__V1__StopSandboxRequest *m = (const void *)message;
    struct err e;
    if (stop_check_grace(m->grace_ms, &e) < 0)
        call_finish(c, &e);
    else
        sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_stop = {.on_message = stop_on_message,
                                         .on_cancel = mutation_cancel};

/* If a host path does not exist any more, the call fails and the sandbox does not change. */
static int start_prepare(struct sandbox_call *sc, struct sandbox *sb, struct err *e) {
    const Berm__V1__Sandbox *record = sandbox_record(sb);
    if (record->state != BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPED)
        return 0;
    return sandbox_call_open(sc, record->owner, record->spec, sandbox_needs_copies(sb), e);
}

static int start_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                     struct err *e) {
    const Berm__V1__StartSandboxRequest *m = (const void *)sc->mu.m;
    return sandbox_start(sb, m->incarnation, change, e);
}

static void start_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {
        .reply = FAIL_START_REPLY, .prepare = start_prepare, .act = start_act};
    const Berm__V1__StartSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_start = {.on_message = start_on_message,
                                          .on_cancel = mutation_cancel};

/* --- pause and resume --- */

static int pause_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                     struct err *e) {
    const Berm__V1__PauseSandboxRequest *m = (const void *)sc->mu.m;
    return sandbox_pause(sb, m->incarnation, change, e);
}

static void pause_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {.reply = FAIL_PAUSE_REPLY, .act = pause_act};
    const Berm__V1__PauseSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_pause = {.on_message = pause_on_message,
                                          .on_cancel = mutation_cancel};

static int resume_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                      struct err *e) {
    const Berm__V1__ResumeSandboxRequest *m = (const void *)sc->mu.m;
    return sandbox_resume(sb, m->incarnation, change, e);
}

static void resume_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {.reply = FAIL_RESUME_REPLY, .act = resume_act};
    const Berm__V1__ResumeSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_resume = {.on_message = resume_on_message,
                                           .on_cancel = mutation_cancel};

/* --- delete --- */

static int delete_act(struct sandbox_call *sc, struct sandbox *sb, const struct change *change,
                      struct err *e) {
    const Berm__V1__DeleteSandboxRequest *m = (const void *)sc->mu.m;
    return sandbox_delete(sb, m->incarnation, change, e);
}

static void delete_on_message(struct call *c, const ProtobufCMessage *message) {
    static const struct sandbox_call_kind kind = {
        .reply = FAIL_DELETE_REPLY, .deletes = true, .act = delete_act};
    const Berm__V1__DeleteSandboxRequest *m = (const void *)message;
    sandbox_call_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_delete = {.on_message = delete_on_message,
                                           .on_cancel = mutation_cancel};
