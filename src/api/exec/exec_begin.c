#include "api/exec/exec_begin.h"

#include <stdio.h>

#include "api/checks.h"
#include "api/exec/exec_check.h"

#define ERR_NUMBER_MAX 999 /* of errors.def */
#define EXEC_ID_BYTES 64

/* The request and its intent on the way to the disk. It outlives a call that is cancelled meanwhile: until
 * the intent is durable only this knows that a repeat must not act. */
struct acceptance {
    struct exec_begin *begin; /* NULL: the call is over */
    struct request request;
    struct ledger_wait wait;
    bool on_way;
};

static void acceptance_free(struct acceptance *a) {
    request_settle(&a->request);
    free(a);
}

void exec_begin_end(struct exec_begin *b) {
    if (!b->opened)
        return;
    b->opened = false;
    exec_unwatch(&b->watch);
    ledger_wait_cancel(&b->wait);
    struct acceptance *a = TAKE(b->acceptance);
    if (a && a->on_way)
        a->begin = NULL;
    else if (a)
        acceptance_free(a);
}

static void fail(struct exec_begin *b, struct err *e) {
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

/* Tells once what is to be told is durable; an exit may be told earlier. */
static void look(struct exec_begin *b) {
    struct exec *x = b->watch.exec;
    struct err e;
    if (!x) {
        err_set(&e, ERR_SANDBOX_DELETED, "%s went with its sandbox", b->exec_id);
        fail(b, &e);
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

static void on_change(struct waiter *w) {
    look(container_of(w, struct exec_begin, watch.waiter));
}

/* A record that could not be written is what it was before, and good enough to tell. */
static void on_settled(struct ledger_wait *w, const struct err *e) {
    struct exec_begin *b = container_of(w, struct exec_begin, wait);
    (void)e;
    b->settling = false;
    look(b);
}

/* The program is accepted, by this call or by an earlier one. */
static void follow(struct exec_begin *b) {
    struct caller who;
    struct exec *x;
    struct err e;
    context_caller(b->call, &who);
    call_set_subject(b->call, "exec_id", b->exec_id);
    if (registry_find_exec(context_registry(b->call), &who, b->exec_id, &x, &e) < 0) {
        fail(b, &e);
        return;
    }
    exec_watch(x, &b->watch, on_change);
    look(b);
}

static void on_accepted(struct ledger_wait *w, const struct err *e) {
    struct acceptance *a = container_of(w, struct acceptance, wait);
    struct exec_begin *b = a->begin;
    acceptance_free(a);
    if (!b)
        return;
    b->acceptance = NULL;
    if (!e) {
        follow(b);
        return;
    }
    struct err told = *e;
    b->exec_id = NULL; /* there is no such program */
    fail(b, &told);
}

/* What a program in this sandbox may be asked to be. */
static int check(struct exec_begin *b, const struct sandbox *sb, Berm__V1__ExecSpec *ret_spec,
                 struct err *e) {
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

static int take_on(struct exec_begin *b, struct err *e) {
    struct acceptance *a = b->acceptance;
    struct change change = {.who = &a->request.caller, .key = &a->request.key, .wait = &a->wait};
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
        check(b, sb, &spec, e) < 0 ||
        exec_start(sandbox_execs(sb), b->incarnation, b->asked_id, &spec, b->stdin_data, &change,
                   &x, e) < 0)
        return -(int)e->code;
    a->on_way = true;
    snprintf(id, EXEC_ID_BYTES, "%s", exec_record(x)->exec_id);
    b->exec_id = id;
    call_set_subject(b->call, "exec_id", id);
    return 0;
}

static void on_again(struct request *r);

static int ask(struct exec_begin *b, enum request_turn *ret_turn, struct err *e) {
    struct request *r = &b->acceptance->request;
    if (request_begin(r, b->call, b->request_message, on_again, ret_turn, e) < 0)
        return -(int)e->code;
    if (*ret_turn == REQUEST_NEW)
        return take_on(b, e);
    if (*ret_turn == REQUEST_REPEAT)
        b->exec_id = r->object_id.p;
    return 0;
}

static void take_turn(struct exec_begin *b) {
    enum request_turn turn;
    struct err e;
    if (ask(b, &turn, &e) < 0)
        fail(b, &e);
    else if (turn == REQUEST_REPEAT)
        follow(b);
}

static void on_again(struct request *r) {
    take_turn(container_of(r, struct acceptance, request)->begin);
}

void exec_begin(struct exec_begin *b) {
    struct err e;
    b->opened = true;
    ledger_wait_init(&b->wait, on_settled);
    b->acceptance = calloc(1, sizeof *b->acceptance);
    if (!b->acceptance) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        fail(b, &e);
        return;
    }
    b->acceptance->begin = b;
    ledger_wait_init(&b->acceptance->wait, on_accepted);
    take_turn(b);
}
