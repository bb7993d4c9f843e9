/* exec_input — WriteStdin: bytes for a program, as many as it has room for. */
#include "api/subject.h"
#include "api/exec/exec_check.h"
#include "api/methods.h"
#include "base/clock.h"

#define STEP_BYTES 49152
#define PROBE_BYTES 4096 /* while there is no room: little, for it may be refused again and again */
#define REPLY_US 50000   /* for the answer to get there before the caller's deadline */

struct input {
    struct call *call;
    const Berm__V1__WriteStdinRequest *request;
    struct exec_watch watch;
    struct exec_ask ask;
    struct deadline deadline;
    uint64_t at; /* the next byte to give */
    size_t step; /* bytes asked for */
    bool asking;
    bool is_full; /* the last step was refused for want of room */
};

static void input_end(struct input *in) {
    exec_ask_cancel(&in->ask);
    deadline_clear(context_deadlines(in->call), &in->deadline);
    exec_unwatch(&in->watch);
}

static void input_fail(struct input *in, const struct err *e) {
    struct call *c = in->call;
    struct err told = subject_exec_error(e, in->request->exec_id, &in->ask);
    input_end(in);
    call_finish(c, &told);
}

static void input_answer(struct input *in) {
    struct call *c = in->call;
    Berm__V1__WriteStdinResponse response = BERM__V1__WRITE_STDIN_RESPONSE__INIT;
    response.next_offset = in->ask.next_offset;
    response.window_bytes = in->ask.window_bytes;
    input_end(in);
    call_reply(c, &response.base);
}

static void give(struct input *in) {
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

/* On as long as it takes all it is given; then the answer, unless nothing was taken yet. */
static void on_given(struct exec_ask *a, const struct err *e) {
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
        give(in);
    else if (took_some)
        input_answer(in);
}

static void on_change(struct waiter *w) {
    struct input *in = container_of(w, struct input, watch.waiter);
    struct err e;
    if (!in->watch.exec) {
        err_set(&e, ERR_SANDBOX_DELETED, "%s went with its sandbox", in->request->exec_id);
        input_fail(in, &e);
    } else if (!in->asking) {
        give(in);
    }
}

static void on_late(struct deadline *d) {
    struct input *in = container_of(d, struct input, deadline);
    struct err e;
    err_limit(&e, ERR_STDIN_FULL, LIMIT_STDIN_WINDOW, context_limit(in->call, LIMIT_STDIN_WINDOW),
              "%s reads nothing of its input", in->request->exec_id);
    input_fail(in, &e);
}

/* When it is time to say that there is no room: before the caller stops listening. */
static uint64_t due_us(const struct call *c) {
    uint64_t now = clock_us();
    uint64_t due = now + (uint64_t)context_limit(c, LIMIT_STDIN_WAIT) * 1000;
    if (c->deadline_us == 0 || c->deadline_us <= now)
        return due;
    uint64_t left = c->deadline_us - now;
    return MIN(due, c->deadline_us - MIN(left / 10, (uint64_t)REPLY_US));
}

static int check(const struct call *c, const Berm__V1__WriteStdinRequest *request, struct err *e) {
    int64_t most = context_limit(c, LIMIT_STDIN_WRITE);
    if (request->data.len == 0)
        return err_field(e, "data", "data: at least one byte is needed");
    if (request->data.len > (size_t)most)
        return exec_check_over(e, "data", LIMIT_STDIN_WRITE, most);
    if (request->offset > (uint64_t)INT64_MAX - request->data.len)
        return err_field(e, "offset", "offset: no input is that long");
    return 0;
}

static void on_write(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__WriteStdinRequest *request = (const void *)m;
    struct exec *x;
    struct err e;
    if (check(c, request, &e) < 0 ||
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
    in->ask.on_done = on_given;
    deadline_init(&in->deadline, on_late);
    deadline_set(context_deadlines(c), &in->deadline, due_us(c));
    exec_watch(x, &in->watch, on_change);
    give(in);
}

static void on_cancel(struct call *c) {
    if (c->state)
        input_end(c->state);
}

const struct handler api_exec_write_stdin = {.on_message = on_write, .on_cancel = on_cancel};
