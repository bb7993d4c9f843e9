/* Output of a program with AttachExec, which resumes; and its input with WriteStdin. */
#include <errno.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"

#define FEED_BYTES ((size_t)64 * 1024) /* the daemon buffers the same amount of input */

/* --- the position of a reader --- */

static bool is_stderr(Berm__V1__OutputStream which) {
    return which == BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
}

void output_place_tail(struct output_place *p, const Berm__V1__Exec *exec, uint64_t tail_bytes) {
    for (size_t i = 0; i < exec->n_output; i++) {
        const Berm__V1__OutputState *o = exec->output[i];
        uint64_t from = o->end_offset > tail_bytes ? o->end_offset - tail_bytes : 0;
        p->next[is_stderr(o->stream)] = MAX(from, o->first_offset);
    }
    p->floats[0] = p->floats[1] = true;
}

int output_place_chunk(struct output_place *p, Berm__V1__OutputChunk *chunk) {
    bool which = is_stderr(chunk->stream);
    uint64_t *next = &p->next[which];
    uint64_t end = chunk->offset + chunk->data.len;
    if (p->floats[which])
        *next = MAX(*next, chunk->offset);
    p->floats[which] = false;
    if (end <= *next)
        return 0;
    if (chunk->offset > *next)
        return -EPROTO;
    size_t skip = (size_t)(*next - chunk->offset);
    chunk->offset += skip;
    chunk->data.data += skip;
    chunk->data.len -= skip;
    *next = end; /* advance even if the user's callback ends the stream: it got the bytes */
    return 1;
}

int output_place_gap(struct output_place *p, Berm__V1__OutputGap *gap) {
    uint64_t *next = &p->next[is_stderr(gap->stream)];
    if (gap->next_offset <= *next)
        return 0;
    gap->offset = *next;
    *next = gap->next_offset;
    return 1;
}

/* --- attach --- */

struct attach {
    struct stream stream;
    Berm__V1__AttachExecRequest request;
    struct output_place place;
    berm_on_output on_output;
    void *user;
    int result;
    bool attached; /* the user got `attached`, and the position is exact */
    bool broken;   /* the daemon skipped bytes without reporting a gap */
};

static enum stream_next attach_give(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    a->stream.given++;
    a->result = a->on_output(m, a->user);
    return a->result == 0 ? STREAM_MORE : STREAM_STOP;
}

static void on_begin(struct stream *s) {
    struct attach *a = container_of(s, struct attach, stream);
    a->request.stdout_offset = a->place.next[0];
    a->request.stderr_offset = a->place.next[1];
}

/* The first response tells where a tail starts; later requests use that offset. */
static enum stream_next on_attached(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    if (a->attached)
        return STREAM_MORE;
    a->attached = true;
    if (a->request.tail_bytes > 0)
        output_place_tail(&a->place, m->attached, a->request.tail_bytes);
    a->request.tail_bytes = 0;
    return attach_give(a, m);
}

static enum stream_next on_chunk(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    Berm__V1__OutputChunk chunk = *m->output;
    Berm__V1__AttachExecResponse copy = *m;
    int r = output_place_chunk(&a->place, &chunk);
    a->broken = r < 0;
    copy.output = &chunk;
    return r < 0 ? STREAM_STOP : r > 0 ? attach_give(a, &copy) : STREAM_MORE;
}

static enum stream_next on_gap(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    Berm__V1__OutputGap gap = *m->gap;
    Berm__V1__AttachExecResponse copy = *m;
    copy.gap = &gap;
    return output_place_gap(&a->place, &gap) > 0 ? attach_give(a, &copy) : STREAM_MORE;
}

static enum stream_next on_message(struct stream *s, const ProtobufCMessage *message) {
    struct attach *a = container_of(s, struct attach, stream);
    const Berm__V1__AttachExecResponse *m = (const Berm__V1__AttachExecResponse *)message;
    switch ((int)m->event_case) {
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_ATTACHED:
        return on_attached(a, m);
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_OUTPUT:
        return on_chunk(a, m);
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_GAP:
        return on_gap(a, m);
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_END:
        if (m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING ||
            m->end->reason == BERM__V1__STREAM_END_REASON__STREAM_END_REASON_SLOW_READER)
            return STREAM_AGAIN;
        attach_give(a, m);
        return STREAM_STOP;
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED:
        attach_give(a, m);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        return STREAM_MORE;
    }
}

int berm_exec_attach(struct berm_client *c, const Berm__V1__AttachExecRequest *request,
                     berm_on_output on_output, void *user, struct berm_error *e) {
    struct attach a = {
        .stream = {.method = method_of(METHOD_ID_AttachExec),
                   .on_begin = on_begin,
                   .on_message = on_message,
                   .resumes = true},
        .request = *request,
        .place.next = {request->stdout_offset, request->stderr_offset},
        .on_output = on_output,
        .user = user,
    };
    a.stream.request = &a.request.base;
    int r = client_stream(c, &a.stream, e);
    if (r == 0 && a.broken)
        return error_set(e, BERM_MALFORMED, "the daemon left output out without a word");
    return r < 0 ? r : a.result;
}

int berm_exec_feed(struct berm_client *c, const char *exec_id, uint64_t *offset, const void *bytes,
                   size_t n, struct berm_error *e) {
    struct berm_error mine;
    const uint8_t *from = bytes;
    const uint64_t first = *offset;
    if (!e)
        e = &mine;
    while (*offset < first + n) {
        size_t done = (size_t)(*offset - first);
        Berm__V1__WriteStdinRequest request = BERM__V1__WRITE_STDIN_REQUEST__INIT;
        Berm__V1__WriteStdinResponse *response;
        request.exec_id = (char *)exec_id;
        request.offset = *offset;
        request.data.data = (uint8_t *)from + done;
        request.data.len = MIN(n - done, FEED_BYTES);
        int r = berm_exec_write_stdin(c, &request, &response, e);
        if (r == -(int)BERM_STDIN_FULL) /* nothing was accepted; wait for the program to read */
            continue;
        if (r < 0)
            return r;
        *offset = MAX(*offset, MIN(response->next_offset, first + n));
        berm_free(response);
    }
    return 0;
}
