#include "api/exec/exec_begin.h"

#include <stdio.h>

#include "api/checks.h"
#include "api/exec/exec_check.h"

#define ERR_NUMBER_MAX 999 /* upper bound of the numbers in errors.def */
#define EXEC_ID_BYTES 64

/* The mutation of an exec_begin. It outlives a call that is cancelled before the intent is
 * durable. */
struct exec_begin_mutation {
    struct mutation mu;
    struct exec_begin *begin; /* valid while mu.call is set */
};

static struct exec_begin *exec_begin_of(struct mutation *mu) {
    return container_of(mu, struct exec_begin_mutation, mu)->begin;
}

void exec_begin_end(struct exec_begin *b) {
    if (!b->opened)
        return;
    b->opened = false;
    exec_unwatch(&b->watch);
    ledger_wait_cancel(&b->wait);
    struct mutation *mu = TAKE(b->mutation);
    if (mu)
        mutation_abandon(mu);
}

static void exec_begin_fail(struct exec_begin *b, struct err *e) {
    if (b->exec_id && !e->subject)
        err_about(e, "exec_id", b->exec_id);
    exec_begin_end(b);
    b->on_begun(b, e);
}

int exec_begin_refusal(struct exec *x, struct err *e) {
    const Berm__V1__Exec *record = exec_record(x);
    const Berm__V1__ExitStatus *exit = record->exit;
    if (!exit || exit->how_case != BERM__V1__EXIT_STATUS__HOW_NOT_STARTED)
        return 0;
    enum err_code code = ERR_INTERNAL;
    for (int i = 1; i <= ERR_NUMBER_MAX; i++) {
        const struct err_face *face = err_face((enum err_code)i);
        if (face && strcmp(face->name, exit->not_started->code) == 0)
            code = (enum err_code)i;
    }
    err_set(e, code, "%s", exit->not_started->message);
    return err_about(e, "exec_id", record->exec_id);
}

/* Reports the start once the record is durable. An exit may be reported before its commit. */
static void exec_begin_look(struct exec_begin *b) {
    struct exec *x = b->watch.exec;
    struct err e;
    if (!x) {
        err_set(&e, ERR_SANDBOX_DELETED, "%s was deleted with its sandbox", b->exec_id);
        exec_begin_fail(b, &e);
        return;
    }
    if (b->settling || !exec_is_answered(x))
        return;
    if (!exec_is_over(x) && ledger_wait(context_ledger(b->call), exec_recorded(x), &b->wait)) {
        b->settling = true;
        return;
    }
    b->on_begun(b, NULL);
}

static void exec_begin_on_change(struct waiter *w) {
    exec_begin_look(container_of(w, struct exec_begin, watch.waiter));
}

/* If the commit failed, the record is the last durable one, which the call may return. */
static void exec_begin_on_settled(struct ledger_wait *w, const struct err *e) {
    struct exec_begin *b = container_of(w, struct exec_begin, wait);
    (void)e;
    b->settling = false;
    exec_begin_look(b);
}

/* Follows the exec that was started by this call or by the earlier call that it repeats. */
static void exec_begin_follow(struct exec_begin *b) {
    struct caller who;
    struct exec *x;
    struct err e;
    context_caller(b->call, &who);
    call_set_subject(b->call, "exec_id", b->exec_id);
    if (registry_find_exec(context_registry(b->call), &who, b->exec_id, &x, &e) < 0) {
        exec_begin_fail(b, &e);
        return;
    }
    exec_watch(x, &b->watch, exec_begin_on_change);
    exec_begin_look(b);
}

static void exec_begin_durable(struct mutation *mu) {
    struct exec_begin *b = exec_begin_of(mu);
    b->mutation = NULL;
    mutation_end(mu);
    exec_begin_follow(b);
}

static int exec_begin_repeat(struct mutation *mu, struct err *e) {
    (void)e;
    exec_begin_of(mu)->exec_id = mu->object_id.p;
    exec_begin_durable(mu);
    return 0;
}

/* The exec was not created, so the error must not name its id. */
static void exec_begin_failed(struct mutation *mu, const struct err *e) {
    struct exec_begin *b = exec_begin_of(mu);
    struct err reported = *e;
    b->exec_id = NULL;
    exec_begin_fail(b, &reported);
}

/* Checks the spec against the limits of the sandbox and fills in defaults. */
static int exec_begin_check(struct exec_begin *b, const struct sandbox *sb,
                            Berm__V1__ExecSpec *ret_spec, struct err *e) {
    char path[32];
    const Berm__V1__SandboxSpec *around = sandbox_record(sb)->spec;
    struct exec_check c = {
        .limits = registry_limits(context_registry(b->call)),
        .sandbox = around ? around->limits : NULL,
        .arena = &b->call->arena,
        .path = path,
        .is_run = b->is_run,
        .has_run_data = b->stdin_data.n > 0,
    };
    snprintf(path, sizeof path, "%sspec", b->prefix);
    return exec_check_spec(&c, b->spec, ret_spec, e);
}

static int exec_begin_first(struct mutation *mu, struct err *e) {
    struct exec_begin *b = exec_begin_of(mu);
    struct change change = mutation_change(mu);
    struct sandbox *sb;
    struct exec *x;
    char field[32];
    Berm__V1__ExecSpec spec;
    char *id = arena_alloc(&b->call->arena, EXEC_ID_BYTES);
    if (!id)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    snprintf(field, sizeof field, "%sexec_id", b->prefix);
    if (check_new_id(field, b->asked_id, e) < 0)
        return -(int)e->code;
    snprintf(field, sizeof field, "%ssandbox_id", b->prefix);
    if (subject_find_sandbox(b->call, b->sandbox_id, field, &sb, e) < 0 ||
        exec_begin_check(b, sb, &spec, e) < 0 ||
        exec_start(sandbox_execs(sb), b->incarnation, b->asked_id, &spec, b->stdin_data, &change,
                   &x, e) < 0)
        return -(int)e->code;
    mutation_keep(mu);
    snprintf(id, EXEC_ID_BYTES, "%s", exec_record(x)->exec_id);
    b->exec_id = id;
    call_set_subject(b->call, "exec_id", id);
    return 0;
}

void exec_begin(struct exec_begin *b) {
    static const struct mutation_kind kind = {.subject_key = "exec_id",
                                              .first = exec_begin_first,
                                              .repeat = exec_begin_repeat,
                                              .on_durable = exec_begin_durable,
                                              .on_failed = exec_begin_failed};
    b->opened = true;
    ledger_wait_init(&b->wait, exec_begin_on_settled);
    b->mutation =
        mutation_new(b->call, b->request_message, &kind, sizeof(struct exec_begin_mutation));
    if (!b->mutation)
        return;
    container_of(b->mutation, struct exec_begin_mutation, mu)->begin = b;
    mutation_begin(b->mutation);
}
