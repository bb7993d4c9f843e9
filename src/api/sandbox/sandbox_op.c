#include "api/sandbox/sandbox_op.h"

#include <stdio.h>

#include "api/checks.h"

/* Every answer about one sandbox has the same two fields, so one struct serves for all. */
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

static struct registry *registry_of(const struct op *op) {
    return context_registry(op->call);
}

/* --- the two ends --- */

static void finish_with(struct op *op, struct err *e) {
    struct call *c = op->call;
    if (!e->subject && op->id[0] != '\0')
        err_about(e, "sandbox_id", op->id);
    request_settle(&op->request);
    c->state = NULL;
    free(op);
    call_finish(c, e);
}

static void answer(struct op *op, const Berm__V1__Sandbox *record) {
    struct call *c = op->call;
    Berm__V1__GetSandboxResponse response;
    protobuf_c_message_init(c->method->response, &response);
    response.sandbox = (Berm__V1__Sandbox *)record;
    response.sequence = ledger_head(registry_ledger(registry_of(op)));
    if (op->kind->act)
        failpoint(op->kind->reply);
    request_settle(&op->request);
    c->state = NULL;
    free(op);
    call_reply(c, &response.base);
}

/* --- showing what stands --- */

static void show(struct op *op);

/* Whether the entry was written or taken back: what is left is durable, or waited for again. */
static void on_shown(struct ledger_wait *w, const struct err *e) {
    (void)e;
    show(container_of(w, struct op, ledger_wait));
}

static void show_deleted(struct op *op) {
    Berm__V1__Sandbox *record;
    struct err e;
    if (registry_find_deleted(registry_of(op), &op->request.caller, op->id, &record, &e) < 0) {
        finish_with(op, &e);
        return;
    }
    answer(op, record);
    berm__v1__sandbox__free_unpacked(record, NULL);
}

static void show(struct op *op) {
    struct registry *r = registry_of(op);
    struct sandbox *sb;
    struct err e;
    if (registry_find_sandbox(r, &op->request.caller, op->id, &sb, &e) < 0) {
        show_deleted(op);
        return;
    }
    op->step = OP_SHOWING;
    ledger_wait_init(&op->ledger_wait, on_shown);
    if (!ledger_wait(registry_ledger(r), sandbox_recorded(sb), &op->ledger_wait))
        answer(op, sandbox_record(sb));
}

static void on_waited(struct waiter *w) {
    show(container_of(w, struct op, sandbox_wait.waiter));
}

/* The change is durable, or was at an earlier call. */
static void changed(struct op *op) {
    struct sandbox *sb;
    struct err e;
    if (op->wait_ms == 0 ||
        registry_find_sandbox(registry_of(op), &op->request.caller, op->id, &sb, &e) < 0) {
        show(op);
        return;
    }
    op->step = OP_WAITING;
    op->sandbox_wait.until_deleted = op->kind->until_deleted;
    sandbox_wait(sb, &op->sandbox_wait, op->wait_ms, on_waited);
}

/* --- changing --- */

static void on_changed(struct ledger_wait *w, const struct err *failed) {
    struct op *op = container_of(w, struct op, ledger_wait);
    request_settle(&op->request);
    if (!op->call) {
        free(op);
    } else if (failed) {
        struct err e = *failed;
        finish_with(op, &e);
    } else {
        changed(op);
    }
}

static void act(struct op *op) {
    struct change change = {
        .who = &op->request.caller, .key = &op->request.key, .wait = &op->ledger_wait};
    struct err e;
    ledger_wait_init(&op->ledger_wait, on_changed);
    op->step = OP_CHANGING;
    if (op->kind->act(op, &change, &e) == 0)
        return;
    if (e.code == ERR_SANDBOX_DELETED && op->kind->deleted_is_done)
        show(op);
    else
        finish_with(op, &e);
}

static void prepare(struct op *op) {
    struct err e;
    int r = op->kind->prepare ? op->kind->prepare(op, &e) : 0;
    if (r == 0)
        act(op);
    else if (r < 0)
        finish_with(op, &e);
}

static void on_opened(struct imports *in, const struct err *failed) {
    struct op *op = container_of(in, struct op, imports);
    struct err e = failed ? *failed : (struct err){0};
    imports_end(in);
    if (failed)
        finish_with(op, &e);
    else
        act(op);
}

int op_open(struct op *op, const char *owner, const Berm__V1__SandboxSpec *spec, bool with_copies,
            struct err *e) {
    op->step = OP_OPENING;
    return imports_begin(&op->imports, registry_env(registry_of(op)), owner, spec, with_copies,
                         on_opened, e);
}

static void ask(struct op *op);

static void on_again(struct request *r) {
    ask(container_of(r, struct op, request));
}

static void ask(struct op *op) {
    enum request_turn turn;
    struct err e;
    op->step = OP_ASKING;
    if (request_begin(&op->request, op->call, op->m, on_again, &turn, &e) < 0) {
        finish_with(op, &e);
    } else if (turn == REQUEST_NEW) {
        prepare(op);
    } else if (turn == REQUEST_REPEAT) {
        snprintf(op->id, sizeof op->id, "%s", op->request.object_id.p);
        changed(op);
    }
}

void op_begin(struct call *c, const ProtobufCMessage *m, const struct op_kind *kind, const char *id,
              int64_t wait_ms) {
    if (!context_serves(c))
        return;
    struct op *op = calloc(1, sizeof *op);
    struct err e;
    if (!op || check_wait(wait_ms, &e) < 0) {
        if (!op)
            err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        free(op);
        call_finish(c, &e);
        return;
    }
    *op = (struct op){.call = c, .kind = kind, .m = m, .wait_ms = wait_ms};
    snprintf(op->id, sizeof op->id, "%s", id);
    c->state = op;
    if (kind->act) {
        ask(op);
    } else {
        context_caller(c, &op->request.caller);
        show(op);
    }
}

void op_cancel(struct call *c) {
    struct op *op = c->state;
    if (!op)
        return;
    c->state = NULL;
    if (op->step == OP_CHANGING) {
        op->call = NULL;
        return;
    }
    imports_end(&op->imports);
    if (op->step == OP_WAITING)
        sandbox_wait_cancel(&op->sandbox_wait);
    if (op->step == OP_SHOWING)
        ledger_wait_cancel(&op->ledger_wait);
    request_settle(&op->request);
    free(op);
}

/* --- for those who act --- */

int op_find(struct op *op, struct sandbox **ret_sb, struct err *e) {
    struct registry *r = registry_of(op);
    const struct caller *who = &op->request.caller;
    Berm__V1__Sandbox *record;
    struct err ignored;
    int found = registry_find_sandbox(r, who, op->id, ret_sb, e);
    if (found == 0 || registry_find_deleted(r, who, op->id, &record, &ignored) < 0)
        return found;
    berm__v1__sandbox__free_unpacked(record, NULL);
    return err_set(e, ERR_SANDBOX_DELETED, "%s is deleted", op->id);
}

void op_rules(const struct op *op, const char *driver, struct spec_rules *ret_rules) {
    struct registry *r = registry_of(op);
    const struct driver *d = registry_driver(r, driver);
    *ret_rules = (struct spec_rules){.limits = registry_limits(r),
                                     .driver = d ? d : registry_driver(r, ""),
                                     .no_driver = registry_no_driver(r)};
}
