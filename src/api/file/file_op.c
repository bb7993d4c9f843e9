#include "api/file/file_op.h"

#include <stdio.h>

#include "base/failpoint.h"

#define ARENA_FIRST ((size_t)4 << 10)
#define ARENA_MAX ((size_t)32 << 20) /* more than any answer of the guest needs */

/* --- the ends --- */

static struct file_op *file_op_of(struct mutation *mu) {
    return container_of(mu, struct file_op, mu);
}

static void file_op_release(struct mutation *mu) {
    struct file_op *op = file_op_of(mu);
    file_call_close(op->file);
    ledger_wait_cancel(&op->intent);
    arena_done(&op->arena);
}

static void file_op_reply(struct mutation *mu) {
    struct file_op *op = file_op_of(mu);
    if (op->kind->is_change && mu->call)
        failpoint(FAIL_FILE_REPLY);
    mutation_reply(mu, op->response);
}

/* --- the record --- */

static void file_op_work(struct file_op *op);
static void file_op_refuse(struct file_op *op, const struct err *e);

static void file_op_on_intent(struct ledger_wait *w, const struct err *e) {
    struct file_op *op = container_of(w, struct file_op, intent);
    struct err cancelled;
    if (op->step == FILE_WITHDRAWING) {
        mutation_fail(&op->mu, &op->failure);
    } else if (e) {
        mutation_fail(&op->mu, e);
    } else if (op->mu.call) {
        file_op_work(op);
    } else {
        op->is_intended = true; /* so that file_op_refuse withdraws the intent */
        err_set(&cancelled, ERR_CANCELLED, "the call was cancelled");
        file_op_refuse(op, &cancelled);
    }
}

/* Withdraws the intent, because the guest did nothing; the request id is free again. After a lost
 * link it is unknown whether the guest acted, so the intent stays. */
static void file_op_refuse(struct file_op *op, const struct err *e) {
    struct err ignored;
    op->failure = *e;
    op->step = FILE_WITHDRAWING;
    if (!op->is_intended || e->code == ERR_GUEST_LOST || e->code == ERR_GUEST_PROTOCOL ||
        file_call_intend(op->file, mutation_change(&op->mu).key, true, &op->intent, &ignored) < 0)
        mutation_fail(&op->mu, &op->failure);
}

static void file_op_record(struct file_op *op) {
    struct err e;
    struct str answer = {0};
    struct change change = {.who = &op->mu.caller};
    if (op->kind->is_change) {
        size_t n = protobuf_c_message_get_packed_size(op->response);
        uint8_t *packed = arena_alloc(&op->arena, n + 1);
        if (packed)
            answer =
                (struct str){(const char *)packed, protobuf_c_message_pack(op->response, packed)};
        change = mutation_change(&op->mu);
        op->step = FILE_RECORDING;
    }
    if (file_call_record(op->file, &op->audit, &change, answer, &e) < 0)
        mutation_fail(&op->mu, &e);
    else if (!op->kind->is_change)
        file_op_reply(&op->mu);
}

/* --- the guest --- */

static void file_op_on_answer(void *user, const struct guest_answer *a) {
    struct file_op *op = user;
    struct err e;
    if (a->e) {
        e = file_target_error("", op->mu.subject_id, a->e);
        if (!op->is_again || !op->mu.call || !op->kind->look || !op->kind->look(op, a->e))
            file_op_refuse(op, &e);
        return;
    }
    if (op->kind->is_change)
        failpoint(FAIL_FILE_ACK);
    op->response = arena_zalloc(&op->arena, op->answers->sizeof_message);
    if (!op->response) {
        answer_no_memory(&e);
        mutation_fail(&op->mu, &e);
        return;
    }
    protobuf_c_message_init(op->answers, op->response);
    if (op->kind->read(op, a->file, &e) < 0) {
        err_about(&e, "sandbox_id", op->mu.subject_id);
        mutation_fail(&op->mu, &e);
    } else if (op->kind->operation != 0) {
        file_op_record(op);
    } else {
        file_op_reply(&op->mu);
    }
}

/* The guest is frozen or lost. A call does not wait for a frozen guest; its change does. */
static void file_op_on_gone(void *user, const struct err *e, bool is_final) {
    struct file_op *op = user;
    if (op->step > FILE_WORKING) { /* the guest has answered; only the store is pending */
        if (is_final)
            file_call_close(TAKE(op->file));
    } else if (is_final || !op->kind->is_change) {
        mutation_fail(&op->mu, e);
    } else {
        mutation_detach(&op->mu, e);
    }
}

static const struct file_events events = {.on_answer = file_op_on_answer,
                                          .on_gone = file_op_on_gone};

/* Copies a path as the caller gave it, because the change may outlive the request. */
static int file_op_keep_path(struct file_op *op, const struct path_arg *path, struct str *ret,
                             struct err *e) {
    size_t n = path->is_default ? 0 : path->path.n;
    const char *copy = arena_copy(&op->arena, path->path.p, n);
    *ret = (struct str){copy, n};
    return copy ? 0 : answer_no_memory(e);
}

static int file_op_send(struct file_op *op, struct err *e) {
    op->audit.operation = op->kind->operation;
    if (file_op_keep_path(op, &op->target.path, &op->audit.path, e) < 0 ||
        (op->new_path.path.n > 0 &&
         file_op_keep_path(op, &op->new_path, &op->audit.new_path, e) < 0) ||
        file_target_open(&op->target, op->mu.call, false, &events, op, &op->file, e) < 0)
        return -(int)e->code;
    if (op->kind->is_change)
        mutation_keep(&op->mu);
    if (op->kind->loss == FILE_LOSS_AGAIN || !mutation_has_request_id(&op->mu) || op->is_again) {
        file_op_work(op);
        return 0;
    }
    op->step = FILE_INTENDING;
    return file_call_intend(op->file, mutation_change(&op->mu).key, false, &op->intent, e);
}

static void file_op_work(struct file_op *op) {
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

static int file_op_answer_again(struct file_op *op, struct err *e) {
    ProtobufCAllocator allocator = call_allocator(op->mu.call);
    op->response = protobuf_c_message_unpack(op->answers, &allocator, op->mu.answer.n,
                                             (const uint8_t *)op->mu.answer.p);
    if (!op->response)
        return answer_no_memory(e);
    mutation_reply(&op->mu, op->response);
    return 0;
}

/* Repeats a call that may have acted: its intent is durable, but its outcome is unknown. */
static int file_op_again(struct file_op *op, struct err *e) {
    op->is_again = true;
    if (op->kind->loss == FILE_LOSS_LOOK)
        return file_op_send(op, e);
    return err_set(e, ERR_GUEST_LOST,
                   "the link broke while the guest acted on the first call: check the files");
}

static int file_op_first(struct mutation *mu, struct err *e) {
    return file_op_send(file_op_of(mu), e);
}

static int file_op_repeat(struct mutation *mu, struct err *e) {
    struct file_op *op = file_op_of(mu);
    return mu->object_id.n == 0 ? file_op_again(op, e) : file_op_answer_again(op, e);
}

static int file_op_check(struct file_op *op, struct err *e) {
    if (arena_init(&op->arena, ARENA_FIRST, ARENA_MAX) < 0)
        return answer_no_memory(e);
    if (file_target_read(&op->target, op->mu.m, "", op->kind->or_workspace, e) < 0)
        return -(int)e->code;
    return op->kind->check ? op->kind->check(op, e) : 0;
}

void file_op_begin(struct call *c, const ProtobufCMessage *m, const struct file_kind *kind) {
    static const struct mutation_kind mutation = {.subject_key = "sandbox_id",
                                                  .first = file_op_first,
                                                  .repeat = file_op_repeat,
                                                  .on_durable = file_op_reply,
                                                  .release = file_op_release};
    struct err e;
    struct mutation *mu = mutation_new(c, m, &mutation, sizeof(struct file_op));
    if (!mu)
        return;
    struct file_op *op = file_op_of(mu);
    op->kind = kind;
    op->answers = c->method->response;
    ledger_wait_init(&op->intent, file_op_on_intent);
    c->state = mu;
    if (file_op_check(op, &e) < 0) {
        mutation_fail(mu, &e);
        return;
    }
    snprintf(mu->subject_id, sizeof mu->subject_id, "%s", op->target.sandbox_id);
    call_set_subject(c, "sandbox_id", op->target.sandbox_id);
    if (kind->is_change)
        mutation_begin(mu);
    else if (file_op_send(op, &e) < 0)
        mutation_fail(mu, &e);
}
