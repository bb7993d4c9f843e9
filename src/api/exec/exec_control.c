/* exec_control — SignalExec, ResizeExec, CloseStdin and AckOutput. */
#include <stdio.h>

#include "api/exec/exec_check.h"
#include "api/methods.h"
#include "api/mutation.h"
#include "api/subject.h"
#include "base/failpoint.h"

struct control;

/* What the four methods do differently. */
struct control_op {
    int (*check)(const ProtobufCMessage *m, struct err *e);
    const char *(*exec_id)(const ProtobufCMessage *m);
    /* Sends the request to the guest; k->ask reports its answer. */
    int (*act)(struct control *k, struct exec *x, struct err *e);
    void (*reply)(struct control *k);
    bool records_itself; /* core records the request id together with an event */
    /* Optional. A repeat sends the request again, because the first may not have reached the
     * guest. */
    int (*again)(struct control *k, struct exec *x, struct err *e);
};

struct control {
    struct mutation mu;
    const struct control_op *op;
    struct exec_ask ask;
    char exec_id[64];
    bool is_repeat;
};

static void control_reply(struct control *k) {
    if (k->mu.call)
        k->op->reply(k);
    else
        mutation_end(&k->mu);
}

/* Repeating a signal, resize or end of input does no harm, so the request id is recorded after the
 * guest has answered. */
static void control_on_asked(struct exec_ask *a, const struct err *e) {
    struct control *k = container_of(a, struct control, ask);
    struct err failure;
    if (e && k->is_repeat && e->code == ERR_EXEC_ENDED) {
        /* the first request was accepted, and the exec has ended since */
        control_reply(k);
    } else if (e) {
        failure = subject_exec_error(e, k->exec_id, a);
        mutation_fail(&k->mu, &failure);
    } else if (k->op->records_itself || !mutation_has_request_id(&k->mu)) {
        control_reply(k);
    } else if (mutation_record(&k->mu, k->exec_id, STR(""), &failure) < 0) {
        mutation_fail(&k->mu, &failure);
    }
}

static int control_send(struct control *k, struct err *e) {
    const char *id = k->op->exec_id(k->mu.m);
    struct exec *x;
    if (subject_find_exec(k->mu.call, id, "exec_id", &x, e) < 0)
        return -(int)e->code;
    snprintf(k->exec_id, sizeof k->exec_id, "%s", id);
    int r = k->is_repeat ? k->op->again(k, x, e) : k->op->act(k, x, e);
    if (r < 0)
        *e = subject_exec_error(e, k->exec_id, &k->ask);
    else
        mutation_keep(&k->mu);
    return r;
}

static int control_first(struct mutation *mu, struct err *e) {
    return control_send(container_of(mu, struct control, mu), e);
}

static int control_repeat(struct mutation *mu, struct err *e) {
    struct control *k = container_of(mu, struct control, mu);
    k->is_repeat = true;
    int r = k->op->again ? control_send(k, e) : 0;
    bool was_too_late = r < 0 && (e->code == ERR_EXEC_ENDED || e->code == ERR_EXEC_NOT_FOUND);
    if (!k->op->again || was_too_late) {
        control_reply(k);
        return 0;
    }
    return r;
}

static void control_durable(struct mutation *mu) {
    control_reply(container_of(mu, struct control, mu));
}

static void control_begin(struct call *c, const ProtobufCMessage *m, const struct control_op *op) {
    static const struct mutation_kind kind = {.subject_key = "exec_id",
                                              .first = control_first,
                                              .repeat = control_repeat,
                                              .on_durable = control_durable};
    struct err e;
    if (op->check && op->check(m, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    struct mutation *mu = mutation_new(c, m, &kind, sizeof(struct control));
    if (!mu)
        return;
    struct control *k = container_of(mu, struct control, mu);
    k->op = op;
    k->ask.on_done = control_on_asked;
    c->state = mu;
    mutation_begin(mu);
}

/* --- SignalExec --- */

static int signal_check(const ProtobufCMessage *m, struct err *e) {
    return exec_check_signal(((const Berm__V1__SignalExecRequest *)m)->signal_number,
                             "signal_number", e);
}

static const char *signal_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__SignalExecRequest *)m)->exec_id;
}

static int signal_act(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__SignalExecRequest *request = (const void *)k->mu.m;
    struct change change = mutation_change(&k->mu);
    /* the reply waits for the guest's answer (k->ask), which comes after the entry is durable */
    change.wait = NULL;
    return exec_signal(x, request->signal_number, request->leader_only, &change, &k->ask, e);
}

static int signal_again(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__SignalExecRequest *request = (const void *)k->mu.m;
    return exec_signal_again(x, request->signal_number, request->leader_only, k->mu.answer, &k->ask,
                             e);
}

static void signal_reply(struct control *k) {
    Berm__V1__SignalExecResponse response = BERM__V1__SIGNAL_EXEC_RESPONSE__INIT;
    response.sequence = ledger_head(k->mu.ledger);
    failpoint(FAIL_SIGNAL_REPLY);
    mutation_reply(&k->mu, &response.base);
}

static void signal_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {.check = signal_check,
                                         .exec_id = signal_exec_id,
                                         .act = signal_act,
                                         .reply = signal_reply,
                                         .records_itself = true,
                                         .again = signal_again};
    control_begin(c, m, &op);
}

const struct handler api_exec_signal = {.on_message = signal_on_message,
                                        .on_cancel = mutation_cancel};

/* --- ResizeExec --- */

static int resize_check(const ProtobufCMessage *m, struct err *e) {
    return exec_check_size(((const Berm__V1__ResizeExecRequest *)m)->size, "size", e);
}

static const char *resize_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__ResizeExecRequest *)m)->exec_id;
}

static int resize_act(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__TerminalSize *size = ((const Berm__V1__ResizeExecRequest *)k->mu.m)->size;
    return exec_resize(x, size->cols, size->rows, &k->ask, e);
}

static void resize_reply(struct control *k) {
    Berm__V1__ResizeExecResponse response = BERM__V1__RESIZE_EXEC_RESPONSE__INIT;
    mutation_reply(&k->mu, &response.base);
}

static void resize_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {
        .check = resize_check, .exec_id = resize_exec_id, .act = resize_act, .reply = resize_reply};
    control_begin(c, m, &op);
}

const struct handler api_exec_resize = {.on_message = resize_on_message,
                                        .on_cancel = mutation_cancel};

/* --- CloseStdin --- */

static const char *close_exec_id(const ProtobufCMessage *m) {
    return ((const Berm__V1__CloseStdinRequest *)m)->exec_id;
}

static int close_act(struct control *k, struct exec *x, struct err *e) {
    const Berm__V1__CloseStdinRequest *request = (const void *)k->mu.m;
    int r = exec_check_input_end(x, request->offset, e);
    return r < 0 ? r : exec_close_input(x, request->offset, &k->ask, e);
}

static void close_reply(struct control *k) {
    Berm__V1__CloseStdinResponse response = BERM__V1__CLOSE_STDIN_RESPONSE__INIT;
    mutation_reply(&k->mu, &response.base);
}

static void close_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct control_op op = {
        .exec_id = close_exec_id, .act = close_act, .reply = close_reply};
    control_begin(c, m, &op);
}

const struct handler api_exec_close_stdin = {.on_message = close_on_message,
                                             .on_cancel = mutation_cancel};

/* --- AckOutput --- */

static int ack_output(const struct call *c, const Berm__V1__AckOutputRequest *request,
                      struct err *e) {
    struct exec *x;
    const uint64_t upto[EXEC_STREAMS] = {request->stdout_offset, request->stderr_offset};
    if (exec_check_reader(request->reader_id, "reader_id", e) < 0 ||
        subject_find_exec(c, request->exec_id, "exec_id", &x, e) < 0 ||
        exec_check_offsets(x, upto, e) < 0)
        return -(int)e->code;
    return exec_ack(x, request->reader_id, NULL, upto, request->release, e);
}

static void ack_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__AckOutputRequest *request = (const void *)m;
    Berm__V1__AckOutputResponse response = BERM__V1__ACK_OUTPUT_RESPONSE__INIT;
    struct err e;
    if (ack_output(c, request, &e) == 0) {
        call_reply(c, &response.base);
        return;
    }
    struct err reported =
        e.code == ERR_INVALID_ARGUMENT ? e : subject_exec_error(&e, request->exec_id, NULL);
    call_finish(c, &reported);
}

const struct handler api_exec_ack = {.on_message = ack_on_message};
