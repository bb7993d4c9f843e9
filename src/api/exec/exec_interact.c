/* exec_interact — Interact: starts an exec or attaches to one, then sends its output and takes its
 * input.
 *
 * One request at a time goes to the guest. Until the guest answers, the call is held, so that
 * messages of an impatient client stay in its own window. */
#include "api/exec/exec_attach.h"
#include "api/exec/exec_begin.h"
#include "api/exec/exec_check.h"
#include "api/methods.h"

#define INPUT_MAX_BYTES 65536
#define STEP_BYTES 49152

struct interact {
    struct call *call;
    struct exec_begin begin;
    struct attachment attachment;
    struct exec_ask ask;
    char exec_id[64];
    uint8_t *input; /* the part of the last chunk that the exec has not accepted; from malloc */
    size_t n_input;
    size_t at_input;       /* bytes of `input` that were accepted */
    uint64_t input_offset; /* offset of the first byte in `input` */
    uint64_t reported_next;
    uint64_t reported_window;
    bool has_first; /* the first message (start or attach) was received */
    bool is_asking;
    bool is_probe;     /* the pending request only checks whether the input accepts bytes again */
    bool is_reported;  /* a window was reported to the client */
    bool is_input_off; /* the exec reads no more input */
    bool is_writable;  /* the client has read the last report */
};

static void interact_end(struct interact *it) {
    exec_begin_end(&it->begin);
    exec_ask_cancel(&it->ask);
    attachment_close(&it->attachment);
    free(TAKE(it->input));
}

static void interact_on_end(struct attachment *a) {
    interact_end(container_of(a, struct interact, attachment));
}

static void interact_fail(struct interact *it, const struct err *e) {
    struct call *c = it->call;
    struct err reported = *e;
    if (it->exec_id[0] != '\0' && e->code != ERR_INVALID_ARGUMENT)
        reported = subject_exec_error(e, it->exec_id, &it->ask);
    interact_end(it);
    call_finish(c, &reported);
}

/* --- requests to the guest --- */

static void interact_go_on(struct interact *it, bool is_woken);

static void interact_drop_input(struct interact *it) {
    free(TAKE(it->input));
    it->n_input = it->at_input = 0;
}

/* Reports the input window to the client. Returns false if the call is over. */
static bool interact_tell(struct interact *it, uint64_t next_offset, uint64_t window_bytes) {
    if (it->is_reported && it->reported_next == next_offset && it->reported_window == window_bytes)
        return true;
    it->is_reported = true;
    it->reported_next = next_offset;
    it->reported_window = window_bytes;
    if (!attachment_accepted(&it->attachment, next_offset, window_bytes))
        return false;
    it->is_writable = !it->attachment.is_full;
    return true;
}

/* An exec that has ended or reads no more input does not end the stream, because its output and
 * exit follow. Input after the client's own end of input is an error. */
static void interact_refused(struct interact *it, const struct err *e) {
    struct exec *x = it->attachment.watch.exec;
    bool is_ended = e->code == ERR_EXEC_ENDED;
    bool is_deaf = e->code == ERR_STDIN_CLOSED && x && !exec_record(x)->input->closed;
    if (!it->is_probe && !is_ended && !is_deaf) {
        interact_fail(it, e);
        return;
    }
    it->is_probe = false;
    it->is_input_off |= is_ended || is_deaf;
    interact_drop_input(it);
    if (!is_deaf || interact_tell(it, exec_record(x)->input->next_offset, 0))
        interact_go_on(it, false);
}

static void interact_on_asked(struct exec_ask *a, const struct err *e) {
    struct interact *it = container_of(a, struct interact, ask);
    it->is_asking = false;
    if (e) {
        interact_refused(it, e);
        return;
    }
    bool is_input = it->n_input > 0 || it->is_probe;
    bool took_any = false;
    it->is_probe = false;
    if (it->n_input > 0) {
        uint64_t at = it->input_offset + it->at_input;
        uint64_t end = it->input_offset + it->n_input;
        took_any = a->next_offset > at;
        it->at_input = (size_t)(MIN(MAX(a->next_offset, at), end) - it->input_offset);
        if (it->at_input == it->n_input)
            interact_drop_input(it);
    }
    if (!is_input || interact_tell(it, a->next_offset, a->window_bytes))
        interact_go_on(it, took_any && a->window_bytes > 0);
}

static void interact_asked(struct interact *it, int r, const struct err *e) {
    if (r < 0) {
        interact_refused(it, e);
        return;
    }
    it->is_asking = true;
    call_hold(it->call);
}

static void interact_give(struct interact *it) {
    struct err e;
    struct exec *x = it->attachment.watch.exec;
    struct str bytes = {(const char *)it->input + it->at_input,
                        MIN(it->n_input - it->at_input, (size_t)STEP_BYTES)};
    interact_asked(it, exec_write(x, it->input_offset + it->at_input, bytes, &it->ask, &e), &e);
}

/* Asks the guest whether the input accepts bytes again, after a window of 0 was reported. */
static void interact_probe(struct interact *it) {
    struct err e;
    it->is_probe = true;
    interact_asked(
        it, exec_write(it->attachment.watch.exec, it->reported_next, STR(""), &it->ask, &e), &e);
}

/* Sends the next request to the guest, or lets the client send its next message. Call it last,
 * because that message may end the call. */
static void interact_go_on(struct interact *it, bool is_woken) {
    if (it->is_asking)
        return;
    if (it->n_input > 0) {
        if (is_woken)
            interact_give(it);
    } else if (is_woken && it->is_reported && it->reported_window == 0 && !it->is_input_off) {
        interact_probe(it);
    } else if (it->is_writable) {
        call_release(it->call);
    }
}

static void interact_on_change(struct attachment *a) {
    interact_go_on(container_of(a, struct interact, attachment), true);
}

/* --- messages --- */

static int interact_take_input(struct interact *it, const Berm__V1__StdinChunk *chunk,
                               struct err *e) {
    if (chunk->data.len == 0 || chunk->data.len > INPUT_MAX_BYTES)
        return err_field(e, "input.data", "input.data: must have 1 to %d bytes", INPUT_MAX_BYTES);
    if (chunk->offset > (uint64_t)INT64_MAX - chunk->data.len)
        return err_field(e, "input.offset", "input.offset: must be at most 2^63 - 1");
    if (it->is_input_off)
        return 0;
    it->input = malloc(chunk->data.len);
    if (!it->input)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    memcpy(it->input, chunk->data.data, chunk->data.len);
    it->n_input = chunk->data.len;
    it->at_input = 0;
    it->input_offset = chunk->offset;
    interact_give(it);
    return 0;
}

static int interact_take_signal(struct interact *it, int32_t number, struct err *e) {
    struct caller who;
    if (exec_check_signal(number, "signal_number", e) < 0)
        return -(int)e->code;
    context_caller(it->call, &who);
    struct change change = {.who = &who};
    interact_asked(it, exec_signal(it->attachment.watch.exec, number, false, &change, &it->ask, e),
                   e);
    return 0;
}

static int interact_take_ack(struct interact *it, const Berm__V1__OutputAck *ack, struct err *e) {
    const struct attachment *a = &it->attachment;
    const uint64_t upto[EXEC_STREAMS] = {ack->stdout_offset, ack->stderr_offset};
    if (!a->has_joined || a->reader[0] == '\0')
        return 0; /* for an unnamed reader, sent bytes already count as acknowledged */
    return exec_ack(a->watch.exec, a->reader, NULL, upto, false, e);
}

static int interact_take_input_end(struct interact *it, uint64_t offset, struct err *e) {
    struct exec *x = it->attachment.watch.exec;
    int r = exec_check_input_end(x, offset, e);
    interact_asked(it, r < 0 ? r : exec_close_input(x, offset, &it->ask, e), e);
    return 0;
}

/* Handles a message after the first. When it returns 0, the call may be over. */
static int interact_take_part(struct interact *it, const Berm__V1__InteractRequest *m,
                              struct err *e) {
    struct exec *x = it->attachment.watch.exec;
    switch (m->part_case) {
    case BERM__V1__INTERACT_REQUEST__PART_INPUT:
        return interact_take_input(it, m->input, e);
    case BERM__V1__INTERACT_REQUEST__PART_INPUT_END:
        return interact_take_input_end(it, m->input_end->offset, e);
    case BERM__V1__INTERACT_REQUEST__PART_RESIZE:
        if (exec_check_size(m->resize, "resize", e) < 0)
            return -(int)e->code;
        interact_asked(it, exec_resize(x, m->resize->cols, m->resize->rows, &it->ask, e), e);
        return 0;
    case BERM__V1__INTERACT_REQUEST__PART_SIGNAL_NUMBER:
        return interact_take_signal(it, m->signal_number, e);
    case BERM__V1__INTERACT_REQUEST__PART_ACK:
        return interact_take_ack(it, m->ack, e);
    case BERM__V1__INTERACT_REQUEST__PART_START:
        return err_field(e, "start", "start: must be the first message");
    case BERM__V1__INTERACT_REQUEST__PART_ATTACH:
        return err_field(e, "attach", "attach: must be the first message");
    case BERM__V1__INTERACT_REQUEST__PART__NOT_SET:
    case _BERM__V1__INTERACT_REQUEST__PART__CASE_IS_INT_SIZE:
        break;
    }
    return err_field(e, "part", "part: must be set to a known part");
}

/* --- the first message --- */

/* Attaches the reader. Holds further messages until the reader is attached. */
static void interact_attach(struct interact *it, struct exec *x,
                            const Berm__V1__AttachExecRequest *request) {
    struct err e;
    strncpy(it->exec_id, exec_record(x)->exec_id, sizeof it->exec_id - 1);
    if (attachment_open(&it->attachment, x, request, "attach.", &e) < 0) {
        interact_fail(it, &e);
        return;
    }
    exec_begin_end(&it->begin);
    attachment_begin(&it->attachment);
}

static void interact_on_begun(struct exec_begin *b, const struct err *e) {
    static const Berm__V1__AttachExecRequest all = BERM__V1__ATTACH_EXEC_REQUEST__INIT;
    struct interact *it = container_of(b, struct interact, begin);
    struct err refusal;
    if (!e && exec_begin_refusal(b->watch.exec, &refusal) < 0)
        e = &refusal;
    if (e)
        interact_fail(it, e);
    else
        interact_attach(it, b->watch.exec, &all);
}

static void interact_first_start(struct interact *it, const Berm__V1__StartExecRequest *request) {
    it->begin = (struct exec_begin){.call = it->call,
                                    .request_message = &request->base,
                                    .sandbox_id = request->sandbox_id,
                                    .prefix = "start.",
                                    .asked_id = request->exec_id,
                                    .incarnation = request->incarnation,
                                    .spec = request->spec,
                                    .on_begun = interact_on_begun};
    exec_begin(&it->begin);
}

static void interact_first_attach(struct interact *it, const Berm__V1__AttachExecRequest *request) {
    struct exec *x;
    struct err e;
    if (subject_find_exec(it->call, request->exec_id, "attach.exec_id", &x, &e) < 0)
        interact_fail(it, &e);
    else
        interact_attach(it, x, request);
}

/* Copies the message into the call's arena, because it is borrowed. */
static const Berm__V1__InteractRequest *interact_keep(struct call *c,
                                                      const Berm__V1__InteractRequest *m) {
    ProtobufCAllocator allocator = call_allocator(c);
    size_t n = berm__v1__interact_request__get_packed_size(m);
    uint8_t *packed = arena_alloc(&c->arena, n);
    if (!packed)
        return NULL;
    berm__v1__interact_request__pack(m, packed);
    return berm__v1__interact_request__unpack(&allocator, n, packed);
}

static void interact_first(struct interact *it, const Berm__V1__InteractRequest *m) {
    struct err e;
    bool is_start = m->part_case == BERM__V1__INTERACT_REQUEST__PART_START;
    if (!is_start && m->part_case != BERM__V1__INTERACT_REQUEST__PART_ATTACH) {
        err_field(&e, "part", "part: must be start or attach in the first message");
        interact_fail(it, &e);
        return;
    }
    const Berm__V1__InteractRequest *kept = interact_keep(it->call, m);
    if (!kept) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        interact_fail(it, &e);
        return;
    }
    it->has_first = true;
    call_hold(it->call);
    if (is_start)
        interact_first_start(it, kept->start);
    else
        interact_first_attach(it, kept->attach);
}

/* --- the handler --- */

static void interact_on_open(struct call *c) {
    struct interact *it = call_new_state(c, sizeof *it);
    if (!it)
        return;
    it->call = c;
    it->is_writable = true;
    it->ask.on_done = interact_on_asked;
    it->attachment.call = c;
    it->attachment.is_interactive = true;
    it->attachment.on_change = interact_on_change;
    it->attachment.on_end = interact_on_end;
}

static void interact_on_message(struct call *c, const ProtobufCMessage *message) {
    const Berm__V1__InteractRequest *m = (const void *)message;
    struct interact *it = c->state;
    struct err e;
    if (!it->has_first)
        interact_first(it, m);
    else if (interact_take_part(it, m, &e) < 0)
        interact_fail(it, &e);
}

/* The client sends no more input, but the exec and its output continue. */
static void interact_on_half_close(struct call *c) {
    struct interact *it = c->state;
    struct err e;
    if (it->has_first)
        return;
    err_field(&e, "part", "part: must be start or attach in the first message");
    interact_fail(it, &e);
}

static void interact_on_writable(struct call *c) {
    struct interact *it = c->state;
    it->is_writable = true;
    if (attachment_on_writable(&it->attachment) && it->attachment.is_attached)
        interact_go_on(it, false);
}

static void interact_on_drain(struct call *c) {
    struct interact *it = c->state;
    attachment_drain(&it->attachment);
}

static void interact_on_cancel(struct call *c) {
    interact_end(c->state);
}

const struct handler api_exec_interact = {
    .on_open = interact_on_open,
    .on_message = interact_on_message,
    .on_half_close = interact_on_half_close,
    .on_writable = interact_on_writable,
    .on_drain = interact_on_drain,
    .on_cancel = interact_on_cancel,
};
