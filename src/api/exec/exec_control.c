/* exec_control — what is said to a running program besides input: signals, sizes, the end of its input,
 * and how far its readers have got. */
#include "api/subject.h"
#include "api/exec/exec_check.h"
#include "api/methods.h"
#include "base/failpoint.h"

struct control;

/* One way to say it. */
struct control_op {
    int (*check)(const ProtobufCMessage *m, struct err *e);
    const char *(*exec_id)(const ProtobufCMessage *m);
    /* The guest is asked; `ask` will hear. */
    int (*act)(struct control *k, struct exec *x, struct err *e);
    void (*reply)(struct call *c);
    bool notes_itself; /* core writes the request id down, with an event */
    /* A repeat asks again, where the first may not have reached the guest; NULL: it is answered. */
    int (*again)(struct control *k, struct exec *x, struct err *e);
};

/* Outlives a call that is cancelled meanwhile: until it is settled a repeat must not act. */
struct control {
    struct call *call; /* NULL: over */
    const ProtobufCMessage *message;
    const struct control_op *op;
    struct ledger *ledger;
    struct request request;
    struct exec_ask ask;
    struct ledger_wait wait;
    char exec_id[64];
    bool on_way; /* the guest is asked, or the request being written down */
    bool is_repeat;
};

static void control_free(struct control *k) {
    request_settle(&k->request);
    free(k);
}

static void finish(struct control *k, const struct err *e) {
    struct call *c = k->call;
    const struct control_op *op = k->op;
    control_free(k);
    if (c)
        c->state = NULL;
    if (c && e)
        call_finish(c, e);
    else if (c)
        op->reply(c);
}

static void on_noted(struct ledger_wait *w, const struct err *e) {
    finish(container_of(w, struct control, wait), e);
}

/* It is done, and doing it again would do no harm, so that its id may be written down after it. */
static void note(struct control *k) {
    struct err e;
    struct entry *t = ledger_begin(k->ledger);
    if (!t) {
        err_set(&e, ERR_STORE_FAILED, "it is done, but its request id cannot be kept");
        finish(k, &e);
        return;
    }
    entry_put_request(t, &k->request.key, k->exec_id, STR(""));
    ledger_commit(t, &k->wait);
}

static void on_asked(struct exec_ask *a, const struct err *e) {
    struct control *k = container_of(a, struct control, ask);
    if (e && k->is_repeat && e->code == ERR_EXEC_ENDED) { /* it was accepted, and came too late */
        finish(k, NULL);
    } else if (e) {
        struct err told = subject_exec_error(e, k->exec_id, a);
        finish(k, &told);
    } else if (k->op->notes_itself || k->request.key.request_id[0] == '\0') {
        finish(k, NULL);
    } else {
        note(k);
    }
}

static void on_again(struct request *r);

static void take_turn(struct control *k) {
    enum request_turn turn;
    struct exec *x;
    struct err e;
    int r = request_begin(&k->request, k->call, k->message, on_again, &turn, &e);
    if (r == 0 && turn == REQUEST_WAIT)
        return;
    bool acts_again = turn == REQUEST_REPEAT && k->op->again;
    if (r == 0 && turn == REQUEST_REPEAT && !acts_again) {
        finish(k, NULL);
        return;
    }
    if (r == 0)
        r = subject_find_exec(k->call, k->op->exec_id(k->message), "exec_id", &x, &e);
    if (r == 0) {
        strncpy(k->exec_id, k->op->exec_id(k->message), sizeof k->exec_id - 1);
        k->is_repeat = acts_again;
        r = acts_again ? k->op->again(k, x, &e) : k->op->act(k, x, &e);
        if (r < 0)
            e = subject_exec_error(&e, k->exec_id, &k->ask);
    }
    if (r < 0 && acts_again && (e.code == ERR_EXEC_ENDED || e.code == ERR_EXEC_NOT_FOUND))
        finish(k, NULL); /* it was accepted then, and nobody is left to hear it */
    else if (r < 0)
        finish(k, &e);
    else
        k->on_way = true;
}

static void on_again(struct request *r) {
    take_turn(container_of(r, struct control, request));
}

static void control_begin(struct call *c, const ProtobufCMessage *m, const struct control_op *op) {
    struct err e;
    struct control *k = NULL;
    if (op->check(m, &e) == 0) {
        k = calloc(1, sizeof *k);
        if (!k)
            err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    }
    if (!k) {
        call_finish(c, &e);
        return;
    }
    c->state = k;
    k->call = c;
    k->message = m;
    k->op = op;
    k->ledger = context_ledger(c);
    k->ask.on_done = on_asked;
    ledger_wait_init(&k->wait, on_noted);
    take_turn(k);
}

static void on_cancel(struct call *c) {
    struct control *k = c->state;
    if (!k)
        return;
    k->call = NULL;
    if (!k->on_way)
        control_free(k);
}

/* --- SignalExec --- */

static int check_signal(const ProtobufCMessage *m, struct err *e) {
    return exec_check_signal(((const Berm__V1__SignalExecRequest *)m)->signal_number,
                             "signal_number", e);
}

static const char *signal_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__SignalExecRequest *)m)->exec_id;
}

static int send_signal(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__SignalExecRequest *request = (const void *)k->message;
    struct change change = {.who = &k->request.caller, .key = &k->request.key, .wait = NULL};
    return exec_signal(x, request->signal_number, request->leader_only, &change, &k->ask, e);
}

static int send_signal_again(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__SignalExecRequest *request = (const void *)k->message;
    return exec_signal_again(x, request->signal_number, request->leader_only, k->request.answer,
                             &k->ask, e);
}

static void reply_signal(struct call *c) {
    Berm__V1__SignalExecResponse response = BERM__V1__SIGNAL_EXEC_RESPONSE__INIT;
    response.sequence = ledger_head(context_ledger(c));
    failpoint(FAIL_SIGNAL_REPLY);
    call_reply(c, &response.base);
}

static void on_signal(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {check_signal, signal_exec_id, send_signal,
                                         reply_signal, true,           send_signal_again};
    control_begin(c, m, &op);
}

const struct handler api_exec_signal = {.on_message = on_signal, .on_cancel = on_cancel};

/* --- ResizeExec --- */

static int check_resize(const ProtobufCMessage *m, struct err *e) {
    return exec_check_size(((const Berm__V1__ResizeExecRequest *)m)->size, "size", e);
}

static const char *resize_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__ResizeExecRequest *)m)->exec_id;
}

static int resize(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__TerminalSize *size = ((const Berm__V1__ResizeExecRequest *)k->message)->size;
    return exec_resize(x, size->cols, size->rows, &k->ask, e);
}

static void reply_resize(struct call *c) {
    Berm__V1__ResizeExecResponse response = BERM__V1__RESIZE_EXEC_RESPONSE__INIT;
    call_reply(c, &response.base);
}

static void on_resize(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {check_resize, resize_exec_id, resize,
                                         reply_resize, false,          NULL};
    control_begin(c, m, &op);
}

const struct handler api_exec_resize = {.on_message = on_resize, .on_cancel = on_cancel};

/* --- CloseStdin --- */

static int check_close(const ProtobufCMessage *m, struct err *e) {
    (void)m;
    (void)e;
    return 0;
}

static const char *close_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__CloseStdinRequest *)m)->exec_id;
}

static int close_input(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__CloseStdinRequest *request = (const void *)k->message;
    int r = exec_check_input_end(x, request->offset, e);
    return r < 0 ? r : exec_close_input(x, request->offset, &k->ask, e);
}

static void reply_close(struct call *c) {
    Berm__V1__CloseStdinResponse response = BERM__V1__CLOSE_STDIN_RESPONSE__INIT;
    call_reply(c, &response.base);
}

static void on_close(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {check_close, close_exec_id, close_input,
                                         reply_close, false,         NULL};
    control_begin(c, m, &op);
}

const struct handler api_exec_close_stdin = {.on_message = on_close, .on_cancel = on_cancel};

/* --- AckOutput --- */

static int ack(const struct call *c, const Berm__V1__AckOutputRequest *request, struct err *e) {
    struct exec *x;
    const uint64_t upto[EXEC_STREAMS] = {request->stdout_offset, request->stderr_offset};
    if (exec_check_reader(request->reader_id, "reader_id", e) < 0 ||
        subject_find_exec(c, request->exec_id, "exec_id", &x, e) < 0 ||
        exec_check_offsets(x, upto, e) < 0)
        return -(int)e->code;
    return exec_ack(x, request->reader_id, NULL, upto, request->release, e);
}

static void on_ack(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__AckOutputRequest *request = (const void *)m;
    Berm__V1__AckOutputResponse response = BERM__V1__ACK_OUTPUT_RESPONSE__INIT;
    struct err e;
    if (ack(c, request, &e) == 0) {
        call_reply(c, &response.base);
        return;
    }
    struct err told =
        e.code == ERR_INVALID_ARGUMENT ? e : subject_exec_error(&e, request->exec_id, NULL);
    call_finish(c, &told);
}

const struct handler api_exec_ack = {.on_message = on_ack};
