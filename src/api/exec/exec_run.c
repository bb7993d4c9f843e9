/* exec_run — StartExec, RunExec and GetExec. */
#include "api/exec/exec_begin.h"
#include "api/exec/exec_check.h"
#include "api/methods.h"
#include "base/failpoint.h"

/* --- StartExec --- */

static void start_on_begun(struct exec_begin *b, const struct err *e) {
    struct call *c = b->call;
    struct err refusal;
    if (!e && exec_begin_refusal(b->watch.exec, &refusal) < 0)
        e = &refusal;
    if (e) {
        failpoint(FAIL_EXEC_REPLY);
        exec_begin_end(b);
        call_finish(c, e);
        return;
    }
    Berm__V1__StartExecResponse response = BERM__V1__START_EXEC_RESPONSE__INIT;
    response.exec = (Berm__V1__Exec *)exec_record(b->watch.exec);
    response.sequence = ledger_head(context_ledger(c));
    failpoint(FAIL_EXEC_REPLY);
    if (call_send(c, &response.base) == CALL_GONE)
        return;
    exec_begin_end(b);
    call_finish(c, NULL);
}

static void start_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__StartExecRequest *request = (const void *)m;
    struct exec_begin *b = call_new_state(c, sizeof *b);
    if (!b)
        return;
    *b = (struct exec_begin){.call = c,
                             .request_message = m,
                             .sandbox_id = request->sandbox_id,
                             .prefix = "",
                             .asked_id = request->exec_id,
                             .incarnation = request->incarnation,
                             .spec = request->spec,
                             .on_begun = start_on_begun};
    exec_begin(b);
}

static void start_on_cancel(struct call *c) {
    exec_begin_end(c->state);
}

const struct handler api_exec_start = {.on_message = start_on_message,
                                       .on_cancel = start_on_cancel};

/* --- RunExec --- */

struct run {
    struct exec_begin begin;
    struct exec_watch watch;
    size_t max_bytes; /* maximum output per stream */
};

static void run_end(struct run *r) {
    exec_begin_end(&r->begin);
    exec_unwatch(&r->watch);
}

static void run_fail(struct run *r, const struct err *e) {
    struct call *c = r->begin.call;
    failpoint(FAIL_RUN_REPLY);
    run_end(r);
    call_finish(c, e);
}

/* Copies the first stored bytes of a stream. */
static int run_take_output(struct run *r, struct exec *x, enum exec_stream s,
                           ProtobufCBinaryData *ret, protobuf_c_boolean *ret_truncated,
                           struct err *e) {
    uint64_t first, end, next = 0;
    if (s >= exec_n_streams(x))
        return 0;
    exec_extent(x, s, &first, &end);
    size_t want = (size_t)MIN(end - first, (uint64_t)r->max_bytes), got = 0;
    *ret_truncated = first > 0 || end - first > want;
    ret->data = want > 0 ? arena_alloc(&r->begin.call->arena, want) : NULL;
    if (want > 0 && !ret->data)
        return err_set(e, ERR_LIMIT_REACHED,
                       "stdout and stderr: out of memory; read them with AttachExec");
    while (got < want) {
        ssize_t n = exec_read(x, s, first + got, ret->data + got, want - got, &next, e);
        if (n < 0)
            return (int)n;
        if (n == 0) { /* the output limit has dropped the rest in the meantime */
            *ret_truncated = true;
            break;
        }
        got += (size_t)n;
    }
    ret->len = got;
    return 0;
}

static void run_reply(struct run *r, struct exec *x) {
    struct call *c = r->begin.call;
    struct err e;
    Berm__V1__RunExecResponse response = BERM__V1__RUN_EXEC_RESPONSE__INIT;
    if (exec_begin_refusal(x, &e) < 0 ||
        run_take_output(r, x, EXEC_STDOUT, &response.stdout_data, &response.stdout_truncated, &e) <
            0 ||
        run_take_output(r, x, EXEC_STDERR, &response.stderr_data, &response.stderr_truncated, &e) <
            0) {
        struct err reported = subject_exec_error(&e, r->begin.exec_id, NULL);
        run_fail(r, &reported);
        return;
    }
    response.exec = (Berm__V1__Exec *)exec_record(x);
    response.sequence = ledger_head(context_ledger(c));
    failpoint(FAIL_RUN_REPLY);
    if (call_send(c, &response.base) == CALL_GONE)
        return;
    run_end(r);
    call_finish(c, NULL);
}

static void run_on_change(struct waiter *w) {
    struct run *r = container_of(w, struct run, watch.waiter);
    struct err e;
    if (r->watch.exec && exec_is_over(r->watch.exec)) {
        run_reply(r, r->watch.exec);
    } else if (!r->watch.exec) {
        err_set(&e, ERR_SANDBOX_DELETED, "%s was deleted with its sandbox", r->begin.exec_id);
        err_about(&e, "exec_id", r->begin.exec_id);
        run_fail(r, &e);
    }
}

static void run_on_begun(struct exec_begin *b, const struct err *e) {
    struct run *r = container_of(b, struct run, begin);
    if (e) {
        run_fail(r, e);
        return;
    }
    exec_watch(b->watch.exec, &r->watch, run_on_change);
    exec_begin_end(b);
    run_on_change(&r->watch.waiter);
}

static int run_check(const struct call *c, const Berm__V1__RunExecRequest *request, struct err *e) {
    int64_t most = context_limit(c, LIMIT_RUN_OUTPUT);
    if (request->max_output_bytes < 0)
        return err_field(e, "max_output_bytes", "max_output_bytes: must be at least 0, got %lld",
                         (long long)request->max_output_bytes);
    if (request->max_output_bytes > most)
        return exec_check_over(e, "max_output_bytes", LIMIT_RUN_OUTPUT, most);
    if (request->stdin_data.len > (size_t)most)
        return exec_check_over(e, "stdin_data", LIMIT_RUN_OUTPUT, most);
    return 0;
}

static void run_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__RunExecRequest *request = (const void *)m;
    struct err e;
    struct run *r = call_new_state(c, sizeof *r);
    if (!r)
        return;
    if (run_check(c, request, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    r->max_bytes = (size_t)(request->max_output_bytes > 0 ? request->max_output_bytes
                                                          : context_limit(c, LIMIT_RUN_OUTPUT));
    r->begin = (struct exec_begin){
        .call = c,
        .request_message = m,
        .sandbox_id = request->sandbox_id,
        .prefix = "",
        .asked_id = request->exec_id,
        .incarnation = request->incarnation,
        .spec = request->spec,
        .stdin_data = {(const char *)request->stdin_data.data, request->stdin_data.len},
        .is_run = true,
        .on_begun = run_on_begun};
    exec_begin(&r->begin);
}

/* The cancellation ends only the call; the exec keeps running. */
static void run_on_cancel(struct call *c) {
    run_end(c->state);
}

const struct handler api_exec_run = {.on_message = run_on_message, .on_cancel = run_on_cancel};

/* --- GetExec --- */

struct get {
    struct call *call;
    const char *exec_id;
    struct exec_watch watch; /* keeps the exec in memory */
    struct ledger_wait wait;
};

static void get_end(struct get *g) {
    ledger_wait_cancel(&g->wait);
    exec_unwatch(&g->watch);
}

static void get_reply(struct get *g) {
    struct call *c = g->call;
    struct exec *x = g->watch.exec;
    if (!x) {
        struct err e;
        err_set(&e, ERR_EXEC_NOT_FOUND, "%s was deleted with its sandbox", g->exec_id);
        err_about(&e, "exec_id", g->exec_id);
        get_end(g);
        call_finish(c, &e);
        return;
    }
    Berm__V1__GetExecResponse response = BERM__V1__GET_EXEC_RESPONSE__INIT;
    exec_measure(x);
    response.exec = (Berm__V1__Exec *)exec_record(x);
    response.sequence = ledger_head(context_ledger(c));
    if (call_send(c, &response.base) == CALL_GONE)
        return;
    get_end(g);
    call_finish(c, NULL);
}

/* If the commit failed, the record is the last durable one, which the call may return. */
static void get_on_durable(struct ledger_wait *w, const struct err *e) {
    (void)e;
    get_reply(container_of(w, struct get, wait));
}

static void get_on_change(struct waiter *w) {
    (void)w; /* nothing to do: the call waits only for the record to be durable */
}

static void get_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__GetExecRequest *request = (const void *)m;
    struct exec *x;
    struct err e;
    struct get *g = call_new_state(c, sizeof *g);
    if (!g)
        return;
    g->call = c;
    g->exec_id = request->exec_id;
    ledger_wait_init(&g->wait, get_on_durable);
    if (subject_find_exec(c, request->exec_id, "exec_id", &x, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    exec_watch(x, &g->watch, get_on_change);
    if (exec_is_over(x) || !ledger_wait(context_ledger(c), exec_recorded(x), &g->wait))
        get_reply(g);
}

static void get_on_cancel(struct call *c) {
    get_end(c->state);
}

const struct handler api_exec_get = {.on_message = get_on_message, .on_cancel = get_on_cancel};
