#include "api/file/file_op.h"

#include <stdio.h>

#include "base/failpoint.h"

#define ARENA_FIRST ((size_t)4 << 10)
#define ARENA_MAX ((size_t)32 << 20) /* more than a message of the guest can become */

/* --- the ends --- */

static void op_free(struct file_op *op) {
    file_call_close(op->file);
    request_settle(&op->request);
    ledger_wait_cancel(&op->durable);
    arena_done(&op->arena);
    free(op);
}

static void op_fail(struct file_op *op, const struct err *e) {
    struct call *c = op->call;
    struct err told = *e;
    op_free(op);
    if (!c)
        return;
    c->state = NULL;
    call_finish(c, &told);
}

static void op_answer(struct file_op *op) {
    struct call *c = op->call;
    if (c) {
        if (op->kind->is_change)
            failpoint(FAIL_FILE_REPLY);
        op->call = NULL;
        c->state = NULL;
        call_reply(c, op->response);
    }
    op_free(op);
}

/* --- the record --- */

static void op_work(struct file_op *op);
static void op_refuse(struct file_op *op, const struct err *e);

static void on_durable(struct ledger_wait *w, const struct err *e) {
    struct file_op *op = container_of(w, struct file_op, durable);
    struct err cancelled;
    if (op->step == FILE_WITHDRAWING)
        op_fail(op, &op->failure);
    else if (e)
        op_fail(op, e);
    else if (op->step == FILE_RECORDING)
        op_answer(op);
    else if (op->call)
        op_work(op);
    else {
        err_set(&cancelled, ERR_CANCELLED, "nobody waits for it");
        op_refuse(op, &cancelled);
    }
}

/* Nothing was done, and the guest says so. */
static void op_refuse(struct file_op *op, const struct err *e) {
    struct err ignored;
    op->failure = *e;
    op->step = FILE_WITHDRAWING;
    if (!op->is_intended || e->code == ERR_GUEST_LOST || e->code == ERR_GUEST_PROTOCOL ||
        file_call_intend(op->file, &op->request.key, true, &op->durable, &ignored) < 0)
        op_fail(op, &op->failure);
}

static void record(struct file_op *op) {
    struct err e;
    struct str answer = {0};
    struct change change = {.who = &op->request.caller};
    if (op->kind->is_change) {
        size_t n = protobuf_c_message_get_packed_size(op->response);
        uint8_t *packed = arena_alloc(&op->arena, n + 1);
        if (packed)
            answer =
                (struct str){(const char *)packed, protobuf_c_message_pack(op->response, packed)};
        change.key = &op->request.key;
        change.wait = &op->durable;
        op->step = FILE_RECORDING;
    }
    if (file_call_record(op->file, &op->audit, &change, answer, &e) < 0)
        op_fail(op, &e);
    else if (!op->kind->is_change)
        op_answer(op);
}

/* --- the guest --- */

static void on_answer(void *user, const struct guest_answer *a) {
    struct file_op *op = user;
    struct err e;
    if (a->e) {
        e = file_target_error("", op->sandbox_id, a->e);
        if (!op->is_again || !op->call || !op->kind->look || !op->kind->look(op, a->e))
            op_refuse(op, &e);
        return;
    }
    if (op->kind->is_change)
        failpoint(FAIL_FILE_ACK);
    op->response = arena_zalloc(&op->arena, op->answers->sizeof_message);
    if (!op->response) {
        answer_no_memory(&e);
        op_fail(op, &e);
        return;
    }
    protobuf_c_message_init(op->answers, op->response);
    if (op->kind->read(op, a->file, &e) < 0) {
        err_about(&e, "sandbox_id", op->sandbox_id);
        op_fail(op, &e);
    } else if (op->kind->operation != 0) {
        record(op);
    } else {
        op_answer(op);
    }
}

/* The call cannot wait for a frozen guest; the change can. */
static void on_gone(void *user, const struct err *e, bool is_final) {
    struct file_op *op = user;
    if (op->step > FILE_WORKING) { /* it is done, or not; only our own disk is waited for */
        if (is_final)
            file_call_close(TAKE(op->file));
    } else if (is_final || !op->kind->is_change) {
        op_fail(op, e);
    } else if (op->call) {
        struct call *c = TAKE(op->call);
        c->state = NULL;
        call_finish(c, e);
    }
}

static const struct file_events events = {.on_answer = on_answer, .on_gone = on_gone};

/* A path as it was given, that outlives the request. */
static int keep_path(struct file_op *op, const struct path_arg *path, struct str *ret,
                     struct err *e) {
    size_t n = path->is_default ? 0 : path->path.n;
    const char *copy = arena_copy(&op->arena, path->path.p, n);
    *ret = (struct str){copy, n};
    return copy ? 0 : answer_no_memory(e);
}

static int op_send(struct file_op *op, struct err *e) {
    op->audit.operation = op->kind->operation;
    if (keep_path(op, &op->target.path, &op->audit.path, e) < 0 ||
        (op->new_path.path.n > 0 && keep_path(op, &op->new_path, &op->audit.new_path, e) < 0) ||
        file_target_open(&op->target, op->call, false, &events, op, &op->file, e) < 0)
        return -(int)e->code;
    if (op->kind->loss == FILE_LOSS_AGAIN || op->request.request_id[0] == '\0' || op->is_again) {
        op_work(op);
        return 0;
    }
    op->step = FILE_INTENDING;
    return file_call_intend(op->file, &op->request.key, false, &op->durable, e);
}

static void op_work(struct file_op *op) {
    op->is_intended = op->step == FILE_INTENDING || op->is_again;
    op->step = FILE_WORKING;
    op->ask.method = op->kind->method;
    op->ask.path = file_target_path(&op->target.path);
    op->ask.user = op->target.user;
    if (op->kind->put)
        op->kind->put(op);
    file_call_ask(op->file, &op->ask);
    if (op->kind->is_change)
        failpoint(FAIL_FILE_SEND);
}

/* --- the request --- */

static void repeat(struct file_op *op) {
    struct err e;
    struct str answer = op->request.answer;
    op->response =
        protobuf_c_message_unpack(op->answers, NULL, answer.n, (const uint8_t *)answer.p);
    if (!op->response) {
        answer_no_memory(&e);
        op_fail(op, &e);
        return;
    }
    struct call *c = TAKE(op->call);
    c->state = NULL;
    call_reply(c, op->response);
    protobuf_c_message_free_unpacked(op->response, NULL);
    op_free(op);
}

/* It was about to act, and nobody saw the end of it. */
static int again(struct file_op *op, struct err *e) {
    op->is_again = true;
    if (op->kind->loss == FILE_LOSS_LOOK)
        return op_send(op, e);
    err_set(e, ERR_GUEST_LOST, "the first call was cut off while the guest was at it: look");
    return err_about(e, "sandbox_id", op->sandbox_id);
}

static void ask(struct file_op *op);

static void on_again(struct request *r) {
    ask(container_of(r, struct file_op, request));
}

static void ask(struct file_op *op) {
    enum request_turn turn = REQUEST_NEW;
    struct err e;
    int r = 0;
    op->step = FILE_ASKING;
    if (op->kind->is_change)
        r = request_begin(&op->request, op->call, op->m, on_again, &turn, &e);
    else
        context_caller(op->call, &op->request.caller);
    if (r == 0 && turn == REQUEST_NEW)
        r = op_send(op, &e);
    else if (r == 0 && turn == REQUEST_REPEAT && op->request.object_id.n == 0)
        r = again(op, &e);
    else if (r == 0 && turn == REQUEST_REPEAT)
        repeat(op);
    if (r < 0)
        op_fail(op, &e);
}

void file_op_begin(struct call *c, const ProtobufCMessage *m, const struct file_kind *kind) {
    struct err e;
    if (!context_serves(c))
        return;
    struct file_op *op = calloc(1, sizeof *op);
    if (!op || arena_init(&op->arena, ARENA_FIRST, ARENA_MAX) < 0) {
        free(op);
        answer_no_memory(&e);
        call_finish(c, &e);
        return;
    }
    op->call = c;
    op->kind = kind;
    op->m = m;
    op->answers = c->method->response;
    ledger_wait_init(&op->durable, on_durable);
    c->state = op;
    if (file_target_read(&op->target, m, "", kind->or_workspace, &e) < 0 ||
        (kind->check && kind->check(op, &e) < 0)) {
        op_fail(op, &e);
        return;
    }
    snprintf(op->sandbox_id, sizeof op->sandbox_id, "%s", op->target.sandbox_id);
    call_set_subject(c, "sandbox_id", op->target.sandbox_id);
    ask(op);
}

void file_op_cancel(struct call *c) {
    struct file_op *op = c->state;
    if (!op)
        return;
    c->state = NULL;
    op->call = NULL;
    if (op->step == FILE_ASKING || !op->kind->is_change)
        op_free(op);
}
