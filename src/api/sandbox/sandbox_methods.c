/* Create, get, update, stop, start, pause, resume and delete: what each asks of the sandbox. */
#include <stdio.h>

#include "api/checks.h"
#include "api/methods.h"
#include "api/sandbox/sandbox_op.h"

/* A call about a sandbox that should be there. */
static void begin(struct call *c, const ProtobufCMessage *m, const struct op_kind *kind,
                  const char *id, int64_t wait_ms) {
    struct err e;
    if (check_id("sandbox_id", id, &e) < 0)
        call_finish(c, &e);
    else
        op_begin(c, m, kind, id, wait_ms);
}

/* --- create --- */

static int prepare_create(struct op *op, struct err *e) {
    const Berm__V1__CreateSandboxRequest *m = (const void *)op->m;
    struct spec_rules rules;
    op_rules(op, m->spec ? m->spec->driver : "", &rules);
    int r = spec_check(&rules, m->spec, &op->call->arena, &op->spec, e);
    return r < 0 ? r : op_open(op, op->request.caller.identity, op->spec, true, e);
}

static int act_create(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__CreateSandboxRequest *m = (const void *)op->m;
    struct registry *r = context_registry(op->call);
    struct sandbox *sb;
    int result = registry_create_sandbox(r, m->sandbox_id, op->spec, change, &sb, e);
    if (result == 0)
        snprintf(op->id, sizeof op->id, "%s", sandbox_record(sb)->sandbox_id);
    return result;
}

static void on_create(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {
        .reply = FAIL_CREATE_REPLY, .prepare = prepare_create, .act = act_create};
    const Berm__V1__CreateSandboxRequest *m = (const void *)message;
    struct err e;
    if (check_new_id("sandbox_id", m->sandbox_id, &e) < 0)
        call_finish(c, &e);
    else
        op_begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_create = {.on_message = on_create, .on_cancel = op_cancel};

/* --- get --- */

static void on_get(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {0};
    const Berm__V1__GetSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, 0);
}

const struct handler api_sandbox_get = {.on_message = on_get, .on_cancel = op_cancel};

/* --- update --- */

static int act_update(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__UpdateSandboxRequest *m = (const void *)op->m;
    Berm__V1__SandboxSpec *spec;
    const char *parts[SPEC_PARTS];
    size_t n_parts;
    struct spec_rules rules;
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    if (r < 0)
        return r;
    op_rules(op, sandbox_record(sb)->spec->driver, &rules);
    r = spec_check_update(&rules, sandbox_record(sb)->spec, m, &op->call->arena, &spec, parts,
                          &n_parts, e);
    return r < 0 ? r : sandbox_update(sb, m->incarnation, spec, parts, n_parts, change, e);
}

static void on_update(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {.reply = FAIL_UPDATE_REPLY, .act = act_update};
    const Berm__V1__UpdateSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, 0);
}

const struct handler api_sandbox_update = {.on_message = on_update, .on_cancel = op_cancel};

/* --- stop and start --- */

static int act_stop(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__StopSandboxRequest *m = (const void *)op->m;
    int64_t max = limit_table[LIMIT_GRACE_MAX].value;
    struct sandbox *sb;
    if (m->grace_ms < -1)
        return err_field(e, "grace_ms", "grace_ms: a time, 0 for the default or -1 for none");
    if (m->grace_ms > max) {
        err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_GRACE_MAX, max, "grace_ms: more than %lld",
                  (long long)max);
        return err_at(e, "grace_ms");
    }
    int r = op_find(op, &sb, e);
    return r < 0 ? r : sandbox_stop(sb, m->incarnation, m->grace_ms, change, e);
}

static void on_stop(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {.reply = FAIL_STOP_REPLY, .act = act_stop};
    const Berm__V1__StopSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_stop = {.on_message = on_stop, .on_cancel = op_cancel};

/* A path that is not there any more leaves the sandbox as it is. */
static int prepare_start(struct op *op, struct err *e) {
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    if (r < 0)
        return r;
    const Berm__V1__Sandbox *record = sandbox_record(sb);
    if (record->state != BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPED)
        return 0;
    return op_open(op, record->owner, record->spec, sandbox_needs_copies(sb), e);
}

static int act_start(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__StartSandboxRequest *m = (const void *)op->m;
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    return r < 0 ? r : sandbox_start(sb, m->incarnation, change, e);
}

static void on_start(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {
        .reply = FAIL_START_REPLY, .prepare = prepare_start, .act = act_start};
    const Berm__V1__StartSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_start = {.on_message = on_start, .on_cancel = op_cancel};

/* --- pause and resume --- */

static int act_pause(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__PauseSandboxRequest *m = (const void *)op->m;
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    return r < 0 ? r : sandbox_pause(sb, m->incarnation, change, e);
}

static void on_pause(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {.reply = FAIL_PAUSE_REPLY, .act = act_pause};
    const Berm__V1__PauseSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_pause = {.on_message = on_pause, .on_cancel = op_cancel};

static int act_resume(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__ResumeSandboxRequest *m = (const void *)op->m;
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    return r < 0 ? r : sandbox_resume(sb, m->incarnation, change, e);
}

static void on_resume(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {.reply = FAIL_RESUME_REPLY, .act = act_resume};
    const Berm__V1__ResumeSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_resume = {.on_message = on_resume, .on_cancel = op_cancel};

/* --- delete --- */

static int act_delete(struct op *op, const struct change *change, struct err *e) {
    const Berm__V1__DeleteSandboxRequest *m = (const void *)op->m;
    struct sandbox *sb;
    int r = op_find(op, &sb, e);
    return r < 0 ? r : sandbox_delete(sb, m->incarnation, change, e);
}

static void on_delete(struct call *c, const ProtobufCMessage *message) {
    static const struct op_kind kind = {.reply = FAIL_DELETE_REPLY,
                                        .act = act_delete,
                                        .until_deleted = true,
                                        .deleted_is_done = true};
    const Berm__V1__DeleteSandboxRequest *m = (const void *)message;
    begin(c, message, &kind, m->sandbox_id, m->wait_ms);
}

const struct handler api_sandbox_delete = {.on_message = on_delete, .on_cancel = op_cancel};
