#include "api/exec/exec_attach.h"

#include <stdio.h>

#include "api/exec/exec_check.h"
#include "api/methods.h"

#define CHUNK_BYTES 65536

/* --- one message --- */

enum event { ATTACHED, OUTPUT, GAP, EXITED, HEARTBEAT, END, ACCEPTED };

/* Sends one event. Every member of both unions is a pointer to a message, so one assignment serves
 * all. */
static enum call_push attachment_send(struct attachment *a, enum event event, void *what) {
    static const Berm__V1__AttachExecResponse__EventCase plain[] = {
        [ATTACHED] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_ATTACHED,
        [OUTPUT] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_OUTPUT,
        [GAP] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_GAP,
        [EXITED] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED,
        [HEARTBEAT] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_HEARTBEAT,
        [END] = BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_END,
    };
    static const Berm__V1__InteractResponse__EventCase interactive[] = {
        [ATTACHED] = BERM__V1__INTERACT_RESPONSE__EVENT_ATTACHED,
        [OUTPUT] = BERM__V1__INTERACT_RESPONSE__EVENT_OUTPUT,
        [GAP] = BERM__V1__INTERACT_RESPONSE__EVENT_GAP,
        [EXITED] = BERM__V1__INTERACT_RESPONSE__EVENT_EXITED,
        [HEARTBEAT] = BERM__V1__INTERACT_RESPONSE__EVENT_HEARTBEAT,
        [END] = BERM__V1__INTERACT_RESPONSE__EVENT_END,
        [ACCEPTED] = BERM__V1__INTERACT_RESPONSE__EVENT_INPUT_ACCEPTED,
    };
    enum call_push sent;
    a->sequence++;
    heartbeat_sent(&a->heartbeat);
    if (a->is_interactive) {
        Berm__V1__InteractResponse m = BERM__V1__INTERACT_RESPONSE__INIT;
        m.sequence = a->sequence;
        m.event_case = interactive[event];
        m.attached = what;
        sent = call_send(a->call, &m.base);
    } else {
        Berm__V1__AttachExecResponse m = BERM__V1__ATTACH_EXEC_RESPONSE__INIT;
        m.sequence = a->sequence;
        m.event_case = plain[event];
        m.attached = what;
        sent = call_send(a->call, &m.base);
    }
    if (sent == CALL_FULL)
        a->is_full = true;
    return sent; /* after CALL_GONE, `a` is freed */
}

/* --- the end --- */

void attachment_close(struct attachment *a) {
    if (!a->heartbeat.call)
        return; /* the attachment was never opened */
    heartbeat_stop(&a->heartbeat);
    ledger_wait_cancel(&a->wait);
    if (!a->watch.exec)
        return;
    if (a->has_joined)
        exec_reader_leave(a->watch.exec, a->reader, &a->watch);
    a->has_joined = false;
    exec_unwatch(&a->watch);
}

void attachment_finish(struct attachment *a, const struct err *e) {
    struct call *c = a->call;
    if (a->on_end)
        a->on_end(a);
    else
        attachment_close(a);
    call_finish(c, e);
}

static void attachment_fail(struct attachment *a, struct err *e) {
    if (a->watch.exec && !e->subject)
        err_about(e, "exec_id", exec_record(a->watch.exec)->exec_id);
    attachment_finish(a, e);
}

static void attachment_finish_with(struct attachment *a, Berm__V1__StreamEndReason reason) {
    Berm__V1__StreamEnd end = BERM__V1__STREAM_END__INIT;
    end.reason = reason;
    if (attachment_send(a, END, &end) != CALL_GONE)
        attachment_finish(a, NULL);
}

/* --- output --- */

enum step { STEP_SENT, STEP_NOTHING, STEP_OVER }; /* STEP_OVER: the call has ended */

static enum step attachment_after_send(enum call_push sent) {
    return sent == CALL_GONE ? STEP_OVER : STEP_SENT;
}

static Berm__V1__OutputStream attachment_stream_name(enum exec_stream s) {
    return s == EXEC_STDOUT ? BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT
                            : BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
}

static enum step attachment_send_gap(struct attachment *a, enum exec_stream s, uint64_t next) {
    Berm__V1__OutputGap gap = BERM__V1__OUTPUT_GAP__INIT;
    struct err e;
    if (a->fail_on_gap) {
        err_set(&e, ERR_OUTPUT_TRIMMED, "bytes %llu to %llu are no longer kept",
                (unsigned long long)a->next[s], (unsigned long long)next);
        err_number(&e, "next_offset", (int64_t)next);
        attachment_fail(a, &e);
        return STEP_OVER;
    }
    gap.stream = attachment_stream_name(s);
    gap.offset = a->next[s];
    gap.next_offset = next;
    a->next[s] = next;
    return attachment_after_send(attachment_send(a, GAP, &gap));
}

/* Sends one chunk of one stream. The chunk contains only replayed output or only new output. */
static enum step attachment_send_stream(struct attachment *a, struct exec *x, enum exec_stream s) {
    uint8_t bytes[CHUNK_BYTES];
    uint64_t next = a->next[s];
    size_t want = sizeof bytes;
    struct err e;
    bool is_past = next < a->past[s];
    if (!a->wanted[s] || (a->until_now && !is_past))
        return STEP_NOTHING;
    if (is_past)
        want = (size_t)MIN(a->past[s] - next, (uint64_t)sizeof bytes);
    ssize_t n = exec_read(x, s, a->next[s], bytes, want, &next, &e);
    if (n < 0) {
        attachment_fail(a, &e);
        return STEP_OVER;
    }
    if (n == 0)
        return next > a->next[s] ? attachment_send_gap(a, s, next) : STEP_NOTHING;
    Berm__V1__OutputChunk chunk = BERM__V1__OUTPUT_CHUNK__INIT;
    chunk.stream = attachment_stream_name(s);
    chunk.offset = a->next[s];
    chunk.data = (ProtobufCBinaryData){(size_t)n, bytes};
    chunk.replayed = is_past;
    a->next[s] += (uint64_t)n;
    return attachment_after_send(attachment_send(a, OUTPUT, &chunk));
}

/* Sends one chunk, and alternates between the streams. */
static enum step attachment_send_next(struct attachment *a, struct exec *x) {
    enum step step = STEP_NOTHING;
    for (unsigned i = 0; i < EXEC_STREAMS && step == STEP_NOTHING; i++) {
        enum exec_stream s = (a->turn + i) % EXEC_STREAMS;
        step = attachment_send_stream(a, x, s);
        if (step == STEP_SENT)
            a->turn = (s + 1) % EXEC_STREAMS;
    }
    return step;
}

/* Returns the offset in each stream up to which the reader counts as having read. For a stream that
 * the reader does not request, this is the end, so that the stream does not block the exec. */
static void attachment_marks(const struct attachment *a, struct exec *x, bool was_sent,
                             uint64_t ret[EXEC_STREAMS]) {
    for (unsigned s = 0; s < EXEC_STREAMS; s++) {
        uint64_t first, end = 0;
        if (!a->wanted[s] && s < exec_n_streams(x))
            exec_extent(x, s, &first, &end);
        ret[s] = !a->wanted[s] ? end : was_sent ? a->next[s] : 0;
    }
}

/* Acknowledges output for the reader. For an unnamed reader, sent bytes count as read; a named
 * reader sends its own acknowledgements. */
static bool attachment_acknowledge(struct attachment *a, struct exec *x) {
    uint64_t upto[EXEC_STREAMS];
    struct err e;
    if (!a->has_joined)
        return true;
    attachment_marks(a, x, a->reader[0] == '\0', upto);
    if (exec_ack(x, a->reader, &a->watch, upto, false, &e) == 0)
        return true;
    attachment_fail(a, &e);
    return false;
}

static bool attachment_has_all(const struct attachment *a, struct exec *x) {
    const Berm__V1__Exec *record = exec_record(x);
    for (unsigned s = 0; s < record->n_output && s < EXEC_STREAMS; s++)
        if (a->wanted[s] && a->next[s] < record->output[s]->end_offset)
            return false;
    return true;
}

/* Sends the exit after all output. Fails if the log is shorter than when the exec ended. */
static void attachment_finish_exited(struct attachment *a, struct exec *x) {
    struct err e;
    if (!attachment_has_all(a, x)) {
        err_set(&e, ERR_OUTPUT_TAMPERED, "the kept output is shorter than when the exec ended");
        attachment_fail(a, &e);
    } else if (attachment_send(a, EXITED, (void *)exec_record(x)) != CALL_GONE) {
        attachment_finish(a, NULL);
    }
}

/* Sends output until the call is no longer writable or no output is left. Returns false if the call
 * is over. */
static bool attachment_pump(struct attachment *a) {
    struct exec *x = a->watch.exec;
    enum step step = STEP_SENT;
    if (!x) {
        attachment_finish_with(a, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SANDBOX_GONE);
        return false;
    }
    if (a->drains) {
        attachment_finish_with(a, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING);
        return false;
    }
    /* check this before reading the output, because only an exec that is over has written all
     * of it */
    bool is_over = exec_is_over(x);
    while (step == STEP_SENT && !a->is_full)
        step = attachment_send_next(a, x);
    if (step == STEP_OVER || !attachment_acknowledge(a, x))
        return false;
    if (a->is_full || step == STEP_SENT)
        return true;
    if (is_over && (!a->until_now || attachment_has_all(a, x))) {
        attachment_finish_exited(a, x);
        return false;
    }
    if (a->until_now) {
        attachment_finish_with(a, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_COMPLETE);
        return false;
    }
    return true;
}

static void attachment_pump_and_notify(struct attachment *a) {
    if (attachment_pump(a) && a->on_change)
        a->on_change(a);
}

/* --- what wakes it --- */

static void attachment_on_change(struct waiter *w) {
    struct attachment *a = container_of(w, struct attachment, watch.waiter);
    if (a->is_attached)
        attachment_pump_and_notify(a);
    else if (!a->watch.exec)
        attachment_begin(a);
}

bool attachment_on_writable(struct attachment *a) {
    a->is_full = false;
    return !a->is_attached || attachment_pump(a);
}

void attachment_drain(struct attachment *a) {
    a->drains = true;
    if (a->is_attached)
        attachment_pump(a);
}

bool attachment_accepted(struct attachment *a, uint64_t next_offset, uint64_t window_bytes) {
    Berm__V1__StdinAccepted accepted = BERM__V1__STDIN_ACCEPTED__INIT;
    accepted.next_offset = next_offset;
    accepted.window_bytes = window_bytes;
    return attachment_send(a, ACCEPTED, &accepted) != CALL_GONE;
}

static bool attachment_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *m) {
    struct attachment *a = container_of(h, struct attachment, heartbeat);
    return a->is_full || attachment_send(a, HEARTBEAT, m) != CALL_GONE;
}

/* --- the beginning --- */

static int attachment_check_streams(struct attachment *a,
                                    const Berm__V1__AttachExecRequest *request, const char *prefix,
                                    struct err *e) {
    char field[48];
    for (unsigned s = 0; s < EXEC_STREAMS; s++)
        a->wanted[s] = request->n_streams == 0;
    for (size_t i = 0; i < request->n_streams; i++) {
        Berm__V1__OutputStream name = request->streams[i];
        snprintf(field, sizeof field, "%sstreams[%zu]", prefix, i);
        if (name != attachment_stream_name(EXEC_STDOUT) &&
            name != attachment_stream_name(EXEC_STDERR))
            return err_field(e, field, "%s: must be STDOUT or STDERR, got %d", field, (int)name);
        a->wanted[name == attachment_stream_name(EXEC_STDERR) ? EXEC_STDERR : EXEC_STDOUT] = true;
    }
    snprintf(field, sizeof field, "%stail_bytes", prefix);
    if (request->tail_bytes > 0 && (request->stdout_offset > 0 || request->stderr_offset > 0))
        return err_field(e, field, "%s: must be 0 when offsets are given", field);
    snprintf(field, sizeof field, "%sreader_id", prefix);
    return request->reader_id[0] == '\0' ? 0 : exec_check_reader(request->reader_id, field, e);
}

/* Finds the offset at which each stream starts for this reader. */
static int attachment_find_start(struct attachment *a, struct exec *x,
                                 const Berm__V1__AttachExecRequest *request, struct err *e) {
    const uint64_t asked[EXEC_STREAMS] = {request->stdout_offset, request->stderr_offset};
    for (unsigned s = 0; s < EXEC_STREAMS; s++) {
        uint64_t first = 0, end = 0;
        if (s < exec_n_streams(x))
            exec_extent(x, s, &first, &end);
        a->past[s] = end;
        a->next[s] = a->wanted[s] ? asked[s] : 0;
        if (request->tail_bytes > 0)
            a->next[s] = MAX(first, end - MIN(end, request->tail_bytes));
    }
    if (exec_check_offsets(x, a->next, e) < 0)
        return -(int)e->code;
    for (unsigned s = exec_n_streams(x); s < EXEC_STREAMS; s++)
        a->wanted[s] = false;
    return 0;
}

static void attachment_on_durable(struct ledger_wait *w, const struct err *e) {
    struct attachment *a = container_of(w, struct attachment, wait);
    (void)e; /* if the commit failed, the record is the last durable one */
    attachment_begin(a);
}

int attachment_open(struct attachment *a, struct exec *x,
                    const Berm__V1__AttachExecRequest *request, const char *prefix, struct err *e) {
    uint64_t from[EXEC_STREAMS];
    if (attachment_check_streams(a, request, prefix, e) < 0)
        return -(int)e->code;
    if (attachment_find_start(a, x, request, e) < 0)
        return err_about(e, "exec_id", exec_record(x)->exec_id);
    a->until_now = request->until_now;
    a->fail_on_gap = request->fail_on_gap;
    a->reader = request->reader_id;
    ledger_wait_init(&a->wait, attachment_on_durable);
    heartbeat_init(&a->heartbeat, a->call, attachment_on_quiet);
    exec_watch(x, &a->watch, attachment_on_change);
    if (exec_record(x)->spec->output_policy == BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_BLOCK) {
        attachment_marks(a, x, true, from);
        if (exec_reader_join(x, a->reader, &a->watch, from, e) < 0) {
            attachment_close(a);
            return err_about(e, "exec_id", exec_record(x)->exec_id);
        }
        a->has_joined = true;
    }
    return 0;
}

void attachment_begin(struct attachment *a) {
    struct exec *x = a->watch.exec;
    struct err e;
    if (!x) {
        err_set(&e, ERR_SANDBOX_DELETED, "the exec was deleted with its sandbox");
        attachment_finish(a, &e);
        return;
    }
    if (!exec_is_over(x) && ledger_wait(context_ledger(a->call), exec_recorded(x), &a->wait))
        return;
    if (attachment_send(a, ATTACHED, (void *)exec_record(x)) == CALL_GONE)
        return;
    a->is_attached = true;
    heartbeat_start(&a->heartbeat);
    attachment_pump_and_notify(a);
}

/* --- AttachExec --- */

static void attach_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__AttachExecRequest *request = (const void *)m;
    struct exec *x;
    struct err e;
    struct attachment *a = call_new_state(c, sizeof *a);
    if (!a)
        return;
    a->call = c;
    if (subject_find_exec(c, request->exec_id, "exec_id", &x, &e) < 0 ||
        attachment_open(a, x, request, "", &e) < 0) {
        call_finish(c, &e);
        return;
    }
    attachment_begin(a);
}

static void attach_on_writable(struct call *c) {
    (void)attachment_on_writable(c->state);
}

static void attach_on_drain(struct call *c) {
    attachment_drain(c->state);
}

static void attach_on_cancel(struct call *c) {
    attachment_close(c->state);
}

const struct handler api_exec_attach = {
    .on_message = attach_on_message,
    .on_writable = attach_on_writable,
    .on_drain = attach_on_drain,
    .on_cancel = attach_on_cancel,
};
