/* Output of programs: AttachExec that goes on after a break, and the way in, WriteStdin. */
#include <stdio.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"

#define FEED_BYTES ((size_t)64 * 1024) /* the daemon holds as much */

struct attach {
    struct stream stream;
    Berm__V1__AttachExecRequest request; /* its offsets are what the user has, and where to go on */
    berm_on_output on_output;
    void *user;
    int result;
    bool attached;  /* the user knows; from here on the offsets are exact */
    bool floats[2]; /* a tail: its first chunk says where it begins */
    bool broken;    /* the daemon left bytes out without a word */
};

static enum stream_next give(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    a->stream.given++;
    a->result = a->on_output(m, a->user);
    return a->result == 0 ? STREAM_MORE : STREAM_STOP;
}

static bool is_stderr(Berm__V1__OutputStream which) {
    return which == BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
}

static uint64_t *offset_of(struct attach *a, Berm__V1__OutputStream which) {
    return is_stderr(which) ? &a->request.stderr_offset : &a->request.stdout_offset;
}

/* Where a tail begins is known from the first answer on; the daemon is not asked for one again. */
static enum stream_next on_attached(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    if (a->attached)
        return STREAM_MORE;
    a->attached = true;
    uint64_t tail = a->request.tail_bytes;
    for (size_t i = 0; tail > 0 && i < m->attached->n_output; i++) {
        const Berm__V1__OutputState *o = m->attached->output[i];
        uint64_t from = o->end_offset > tail ? o->end_offset - tail : 0;
        *offset_of(a, o->stream) = MAX(from, o->first_offset);
    }
    a->floats[0] = a->floats[1] = tail > 0;
    a->request.tail_bytes = 0;
    return give(a, m);
}

/* Bytes the user has already are cut off; bytes that are missing are never passed over. */
static enum stream_next on_chunk(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    Berm__V1__OutputChunk chunk = *m->output;
    Berm__V1__AttachExecResponse copy = *m;
    uint64_t *next = offset_of(a, chunk.stream);
    uint64_t end = chunk.offset + chunk.data.len;
    if (a->floats[is_stderr(chunk.stream)])
        *next = MAX(*next, chunk.offset);
    a->floats[is_stderr(chunk.stream)] = false;
    if (end <= *next)
        return STREAM_MORE;
    if (chunk.offset > *next) {
        a->broken = true;
        return STREAM_STOP;
    }
    size_t skip = (size_t)(*next - chunk.offset);
    chunk.offset += skip;
    chunk.data.data += skip;
    chunk.data.len -= skip;
    copy.output = &chunk;
    *next = end; /* before the callback, which may end the stream but has the bytes */
    return give(a, &copy);
}

static enum stream_next on_gap(struct attach *a, const Berm__V1__AttachExecResponse *m) {
    Berm__V1__OutputGap gap = *m->gap;
    Berm__V1__AttachExecResponse copy = *m;
    uint64_t *next = offset_of(a, gap.stream);
    if (gap.next_offset <= *next)
        return STREAM_MORE;
    gap.offset = *next;
    copy.gap = &gap;
    *next = gap.next_offset;
    return give(a, &copy);
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
        give(a, m);
        return STREAM_STOP;
    case BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED:
        give(a, m);
        return STREAM_STOP;
    default: /* a heartbeat, or what a newer daemon says (SKEW-5) */
        return STREAM_MORE;
    }
}

int berm_exec_attach(struct berm_client *c, const Berm__V1__AttachExecRequest *request,
                     berm_on_output on_output, void *user, struct berm_error *e) {
    struct attach a = {
        .stream = {.method = method_of(METHOD_ID_AttachExec),
                   .on_message = on_message,
                   .resumes = true},
        .request = *request,
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
        if (r == -(int)BERM_STDIN_FULL) /* it does not read yet; nothing was taken */
            continue;
        if (r < 0)
            return r;
        *offset = MAX(*offset, MIN(response->next_offset, first + n));
        berm_free(response);
    }
    return 0;
}
