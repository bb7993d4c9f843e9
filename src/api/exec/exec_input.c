/* exec_input — WriteStdin: writes as many bytes as the exec's input accepts. */
#include "api/subject.h"
#include "api/exec/exec_check.h"
#include "api/methods.h"
#include "base/clock.h"

#define STEP_BYTES 49152
/* Bytes to send to a full input. Few, because the guest may refuse them repeatedly. */
#define PROBE_BYTES 4096
#define REPLY_US 50000 /* how long before the deadline of the caller to reply, at most */

struct input {
    struct call *call;
    const Berm__V1__WriteStdinRequest *request;
    struct exec_watch watch;
    struct exec_ask ask;
    struct deadline deadline;
    uint64_t at; /* offset of the next byte to write */
    size_t step; /* bytes in the current request */
    bool asking;
    bool is_full; /* the guest accepted nothing of the last request */
};

static void input_end(struct input *in) {
    exec_ask_cancel(&in->ask);
    deadline_clear(context_deadlines(in->call), &in->deadline);
    exec_unwatch(&in->watch);
}

static void input_fail(struct input *in, const struct err *e) {
    struct call *c = in->call;
    struct err reported = subject_exec_error(e, in->request->exec_id, &in->ask);
    input_end(in);
    call_finish(c, &reported);
}

static void input_reply(struct input *in) {
    struct call *c = in->call;
    Berm__V1__WriteStdinResponse response = BERM__V1__WRITE_STDIN_RESPONSE__INIT;
    response.next_offset = in->ask.next_offset;
    response.window_bytes = in->ask.window_bytes;
    input_end(in);
    call_reply(c, &response.base);
}

static void input_give(struct input *in) {
    const ProtobufCBinaryData *data = &in->request->data;
    size_t done = (size_t)(in->at - in->request->offset);
    struct err e;
    in->step = MIN(data->len - done, (size_t)(in->is_full ? PROBE_BYTES : STEP_BYTES));
    struct str bytes = {(const char *)data->data + done, in->step};
    if (exec_write(in->watch.exec, in->at, bytes, &in->ask, &e) < 0)
        input_fail(in, &e);
    else
        in->asking = true;
}

/* Writes more while the guest accepts everything. Then replies, unless the guest has accepted
 * nothing at all. */
static void input_on_given(struct exec_ask *a, const struct err *e) {
    struct input *in = container_of(a, struct input, ask);
    uint64_t end = in->request->offset + in->request->data.len;
    in->asking = false;
    if (e) {
        input_fail(in, e);
        return;
    }
    bool took_all = a->next_offset >= in->at + in->step;
    bool took_some = a->next_offset > in->request->offset;
    in->is_full = !took_all;
    in->at = MIN(MAX(in->at, a->next_offset), end);
    if (in->at < end && took_all && a->window_bytes > 0)
        input_give(in);
    else if (took_some)
        input_reply(in);
}

static void input_on_change(struct waiter *w) {
    struct input *in = container_of(w, struct input, watch.waiter);
    struct err e;
    if (!in->watch.exec) {
        err_set(&e, ERR_SANDBOX_DELETED, "%s was deleted with its sandbox", in->request->exec_id);
        input_fail(in, &e);
    } else if (!in->asking) {
        input_give(in);
    }
}

static void input_on_late(struct deadline *d) {
    struct input *in = container_of(d, struct input, deadline);
    struct err e;
    err_limit(&e, ERR_STDIN_FULL, LIMIT_STDIN_WINDOW, context_limit(in->call, LIMIT_STDIN_WINDOW),
              "%s does not read its input", in->request->exec_id);
    input_fail(in, &e);
}

/* Returns when to report a full input, which is before the caller's deadline. */
static uint64_t input_due_us(const struct call *c) {
    uint64_t now = clock_us();
    uint64_t due = now + (uint64_t)context_limit(c, LIMIT_STDIN_WAIT) * 1000;
    if (c->deadline_us == 0 || c->deadline_us <= now)
        return due;
    uint64_t left = c->deadline_us - now;
    return MIN(due, c->deadline_us - MIN(left / 10, (uint64_t)REPLY_US));
}

static int input_check(const struct call *c, const Berm__V1__WriteStdinRequest *request,
                       struct err *e) {
    int64_t most = context_limit(c, LIMIT_STDIN_WRITE);
    if (request->data.len == 0)
        return err_field(e, "data", "data: must have at least one byte");
    if (request->data.len > (size_t)most)
        return exec_check_over(e, "data", LIMIT_STDIN_WRITE, most);
    if (request->offset > (uint64_t)INT64_MAX - request->data.len)
        return err_field(e, "offset", "offset: must be at most 2^63 - 1");
    return 0;
}

static void input_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__WriteStdinRequest *request = (const void *)m;
    struct exec *x;
    struct err e;
    if (input_check(c, request, &e) < 0 ||
        subject_find_exec(c, request->exec_id, "exec_id", &x, &e) < 0) {
        call_finish(c, &e);
        return;
    }
    struct input *in = call_new_state(c, sizeof *in);
    if (!in)
        return;
    in->call = c;
    in->request = request;
    in->at = request->offset;
    in->ask.on_done = input_on_given;
    deadline_init(&in->deadline, input_on_late);
    deadline_set(context_deadlines(c), &in->deadline, input_due_us(c));
    exec_watch(x, &in->watch, input_on_change);
    input_give(in);
}

static void input_on_cancel(struct call *c) {
    if (c->state)
        input_end(c->state);
}

const struct handler api_exec_write_stdin = {.on_message = input_on_message,
                                             .on_cancel = input_on_cancel};
