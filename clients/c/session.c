/* Interact: a session with a program that survives its connection.
 *
 * The session keeps input until the program accepts it. On a new connection, the daemon reports how
 * much input the program has accepted, and the session sends the rest again. The session requests
 * output from the first byte that the user does not have. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"

#define INPUT_BYTES ((size_t)64 * 1024)

struct berm_session {
    struct stream stream;
    struct berm_client *client;
    Berm__V1__InteractRequest first; /* a start until the exec id is known, then an attach */
    Berm__V1__StartExecRequest start;
    Berm__V1__AttachExecRequest attach;
    char request_id[33];
    char exec_id[64];
    struct output_place place;
    struct buf input; /* input that the program has not accepted yet */
    uint64_t base;    /* stdin offset of the first byte in `input` */
    uint64_t sent;    /* stdin offset of the first byte not sent on this connection */
    bool wants_end, sent_end;
    bool has_size, sent_size;
    bool is_attached; /* the daemon sent `attached` on this connection */
    bool is_known;    /* the user got `attached`; `place` and `base` are exact */
    bool broken;      /* the daemon skipped bytes without reporting a gap */
    Berm__V1__InteractRequest next;
    Berm__V1__StdinChunk chunk;
    Berm__V1__StdinEnd end;
    Berm__V1__TerminalSize size;
    berm_on_session on_message;
    void *user;
    int result;
};

/* --- input --- */

size_t berm_session_room(const struct berm_session *s) {
    return s->wants_end ? 0 : buf_available(&s->input);
}

size_t berm_session_write(struct berm_session *s, const void *bytes, size_t n) {
    n = MIN(n, berm_session_room(s));
    return n > 0 && buf_append(&s->input, bytes, n) == 0 ? n : 0;
}

void berm_session_end_input(struct berm_session *s) {
    s->wants_end = true;
}

void berm_session_resize(struct berm_session *s, uint32_t cols, uint32_t rows) {
    s->size.cols = cols;
    s->size.rows = rows;
    s->has_size = true;
    s->sent_size = false;
}

/* Removes input before next_offset, which the program has accepted. */
static void accepted(struct berm_session *s, uint64_t next_offset) {
    if (next_offset <= s->base)
        return;
    buf_consume(&s->input, (size_t)MIN(next_offset - s->base, (uint64_t)buf_len(&s->input)));
    s->base = next_offset;
    s->sent = MAX(s->sent, next_offset);
}

static enum send_next on_send(struct stream *stream, const ProtobufCMessage **ret_message) {
    struct berm_session *s = container_of(stream, struct berm_session, stream);
    uint64_t end = s->base + buf_len(&s->input);
    if (!s->is_attached)
        return SEND_WAIT;
    *ret_message = &s->next.base;
    if (s->has_size && !s->sent_size) {
        s->next.part_case = BERM__V1__INTERACT_REQUEST__PART_RESIZE;
        s->next.resize = &s->size;
        s->sent_size = true;
        return SEND_MORE;
    }
    if (s->sent_end)
        return SEND_WAIT;
    if (s->sent < end) {
        s->chunk.offset = s->sent;
        s->chunk.data.data = buf_data(&s->input) + (s->sent - s->base);
        s->chunk.data.len = (size_t)(end - s->sent);
        s->next.part_case = BERM__V1__INTERACT_REQUEST__PART_INPUT;
        s->next.input = &s->chunk;
        s->sent = end;
        return SEND_MORE;
    }
    if (!s->wants_end)
        return SEND_WAIT;
    s->end.offset = end;
    s->next.part_case = BERM__V1__INTERACT_REQUEST__PART_INPUT_END;
    s->next.input_end = &s->end;
    s->sent_end = true;
    return SEND_MORE;
}

/* --- output --- */

static enum stream_next session_give(struct berm_session *s, const Berm__V1__InteractResponse *m) {
    s->stream.given++;
    s->result = s->on_message(m, s->user);
    return s->result == 0 ? STREAM_MORE : STREAM_STOP;
}

static void on_begin(struct stream *stream) {
    struct berm_session *s = container_of(stream, struct berm_session, stream);
    s->is_attached = s->sent_end = s->sent_size = false;
    s->attach.stdout_offset = s->place.next[0];
    s->attach.stderr_offset = s->place.next[1];
}

/* Prepares to send the rest of the input again. Also reports accepted input to the user, because
 * the daemon's report may have been lost with the connection. */
static enum stream_next on_attached_again(struct berm_session *s, const Berm__V1__Exec *x,
                                          uint64_t next_offset) {
    Berm__V1__StdinAccepted taken = BERM__V1__STDIN_ACCEPTED__INIT;
    Berm__V1__InteractResponse m = BERM__V1__INTERACT_RESPONSE__INIT;
    accepted(s, next_offset);
    s->sent = s->base;
    s->sent_end = x->input && x->input->closed;
    taken.next_offset = s->base;
    taken.window_bytes = berm_session_room(s);
    m.event_case = BERM__V1__INTERACT_RESPONSE__EVENT_INPUT_ACCEPTED;
    m.input_accepted = &taken;
    enum stream_next next = session_give(s, &m);
    s->stream.given--; /* attaching again does not count as progress */
    return next;
}

/* Stores the exec id on the first connection, so that later connections attach to the program. */
static enum stream_next on_attached(struct berm_session *s, const Berm__V1__InteractResponse *m) {
    const Berm__V1__Exec *x = m->attached;
    uint64_t next_offset = x->input ? x->input->next_offset : 0;
    s->is_attached = true;
    if (s->is_known)
        return on_attached_again(s, x, next_offset);
    s->is_known = true;
    s->base = s->sent = next_offset;
    snprintf(s->exec_id, sizeof s->exec_id, "%s", x->exec_id);
    if (s->attach.tail_bytes > 0)
        output_place_tail(&s->place, x, s->attach.tail_bytes);
    s->attach.tail_bytes = 0;
    s->attach.exec_id = s->exec_id;
    s->first.part_case = BERM__V1__INTERACT_REQUEST__PART_ATTACH;
    s->first.attach = &s->attach;
    return session_give(s, m);
}

static enum stream_next on_chunk(struct berm_session *s, const Berm__V1__InteractResponse *m) {
    Berm__V1__OutputChunk chunk = *m->output;
    Berm__V1__InteractResponse copy = *m;
    int r = output_place_chunk(&s->place, &chunk);
    s->broken = r < 0;
    copy.output = &chunk;
    return r < 0 ? STREAM_STOP : r > 0 ? session_give(s, &copy) : STREAM_MORE;
}

static enum stream_next on_gap(struct berm_session *s, const Berm__V1__InteractResponse *m) {
    Berm__V1__OutputGap gap = *m->gap;
    Berm__V1__InteractResponse copy = *m;
    copy.gap = &gap;
    return output_place_gap(&s->place, &gap) > 0 ? session_give(s, &copy) : STREAM_MORE;
}

static enum stream_next on_message(struct stream *stream, const ProtobufCMessage *message) {
    struct berm_session *s = container_of(stream, struct berm_session, stream);
    const Berm__V1__InteractResponse *m = (const Berm__V1__InteractResponse *)message;
    switch ((int)m->event_case) {
    case BERM__V1__INTERACT_RESPONSE__EVENT_ATTACHED:
        return on_attached(s, m);
    case BERM__V1__INTERACT_RESPONSE__EVENT_OUTPUT:
        return on_chunk(s, m);
    case BERM__V1__INTERACT_RESPONSE__EVENT_GAP:
        return on_gap(s, m);
    case BERM__V1__INTERACT_RESPONSE__EVENT_INPUT_ACCEPTED:
        accepted(s, m->input_accepted->next_offset);
        return session_give(s, m);
    case BERM__V1__INTERACT_RESPONSE__EVENT_END:
        if (m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING ||
            m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER)
            return STREAM_AGAIN;
        session_give(s, m);
        return STREAM_STOP;
    case BERM__V1__INTERACT_RESPONSE__EVENT_EXITED:
        session_give(s, m);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        return STREAM_MORE;
    }
}

/* --- the session --- */

struct berm_session *berm_session_new(struct berm_client *c,
                                      const Berm__V1__InteractRequest *first) {
    struct berm_session *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->client = c;
    s->stream = (struct stream){.method = method_of(METHOD_ID_Interact),
                                .request = &s->first.base,
                                .on_begin = on_begin,
                                .on_send = on_send,
                                .on_message = on_message,
                                .resumes = true,
                                .has_request_id = true};
    berm__v1__interact_request__init(&s->next);
    berm__v1__stdin_chunk__init(&s->chunk);
    berm__v1__stdin_end__init(&s->end);
    berm__v1__terminal_size__init(&s->size);
    berm__v1__attach_exec_request__init(&s->attach);
    buf_init(&s->input, INPUT_BYTES);
    s->first = *first;
    if (first->part_case == BERM__V1__INTERACT_REQUEST__PART_START) {
        s->start = *first->start;
        client_random_id(s->request_id, 32);
        if (s->start.request_id[0] == '\0')
            s->start.request_id = s->request_id;
        s->first.start = &s->start;
    } else if (first->part_case == BERM__V1__INTERACT_REQUEST__PART_ATTACH) {
        s->attach = *first->attach;
        s->place.next[0] = s->attach.stdout_offset;
        s->place.next[1] = s->attach.stderr_offset;
        s->first.attach = &s->attach;
    }
    return s;
}

void berm_session_free(struct berm_session *s) {
    if (!s)
        return;
    buf_done(&s->input);
    free(s);
}

int berm_session_run(struct berm_session *s, berm_on_session callback, void *user,
                     struct berm_error *e) {
    s->on_message = callback;
    s->user = user;
    int r = client_stream(s->client, &s->stream, e);
    if (r == 0 && s->broken)
        return error_set(e, BERM_MALFORMED, "the daemon left output out without a word");
    return r < 0 ? r : s->result;
}
