#include <errno.h>

#include "transport/grpc_call.h"
#include "wire/gzip.h"
#include "wire/pb.h"

static int grpc_decode(struct grpc_call *g, const uint8_t *bytes, size_t n, struct err *e) {
    struct call *c = &g->call;
    ProtobufCMessage *m;
    struct arena *arena = call_has_one_request(c) ? &c->arena : &g->message;
    if (arena == &g->message && !arena->blocks &&
        arena_init(arena, GRPC_ARENA_BYTES, grpc_limit(g, LIMIT_MESSAGE_DECODED)) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    int r = arena == &g->message ? pb_decode_in_place(c->method->request, bytes, n, arena, &m, e)
                                 : pb_decode(c->method->request, bytes, n, arena, &m, e);
    if (r < 0)
        return r;
    call_message(c, m);
    if (arena == &g->message)
        arena_reset(arena);
    return 0;
}

/* Refuses a request while the client has too many unread reply bytes, because the reply may be as
 * large as the request. */
static int grpc_check_unread(const struct grpc_call *g, struct err *e) {
    if (g->conn->unread_bytes <= grpc_limit(g, LIMIT_CONNECTION_UNREAD))
        return 0;
    return grpc_over_limit(g, e, ERR_LIMIT_REACHED, LIMIT_CONNECTION_UNREAD,
                           "size of the connection's unread replies");
}

static int grpc_open_message(struct grpc_call *g, const struct grpc_frame *frame, struct err *e) {
    struct server *s = grpc_server(g);
    if (grpc_check_unread(g, e) < 0)
        return -(int)e->code;
    if (!frame->compressed)
        return grpc_decode(g, frame->bytes, frame->n, e);
    struct buf plain;
    buf_init(&plain, server_limit(s, LIMIT_MESSAGE_INBOUND));
    int r = gzip_inflate(s->gzip, frame->bytes, frame->n, &plain);
    if (r == -ENOBUFS)
        r = grpc_over_limit(g, e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND,
                            "size of a decompressed message");
    else if (r < 0)
        r = err_set(e, ERR_MALFORMED, "decompress a message: it is not valid gzip");
    else
        r = grpc_decode(g, plain.block ? buf_data(&plain) : frame->bytes, buf_len(&plain), e);
    buf_done(&plain);
    return r;
}

/* Keeps a single request encoded until its body ends, because it may be far larger when decoded. */
static int grpc_take_message(struct grpc_call *g, const struct grpc_frame *frame, struct err *e) {
    g->call.bytes_in += frame->n;
    if (frame->compressed && !g->body_gzip)
        return err_set(e, ERR_MALFORMED,
                       "read a message: it is marked compressed, but grpc-encoding is not set");
    if (!call_has_one_request(&g->call))
        return grpc_open_message(g, frame, e);
    if (g->request.bytes) {
        call_wrong_count(&g->call, "not several");
        return 0;
    }
    g->request = *frame;
    g->request.bytes = (uint8_t *)arena_copy(&g->call.arena, frame->bytes, frame->n);
    if (g->request.bytes)
        return 0;
    return grpc_over_limit(g, e, ERR_LIMIT_REACHED, LIMIT_MESSAGE_DECODED, "size of a request");
}

static int grpc_read_failed(struct grpc_call *g, enum grpc_read what, struct err *e) {
    if (what == GRPC_READ_TOO_LARGE)
        return grpc_over_limit(g, e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND,
                               "size of a message");
    if (what == GRPC_READ_BAD)
        return err_set(e, ERR_MALFORMED, "read a message: its prefix is invalid");
    return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}

static void grpc_count_unfinished(struct grpc_call *g) {
    size_t now = grpc_reader_pending(&g->reader) + g->request.n;
    g->conn->unfinished_bytes += now - g->unfinished_bytes;
    g->unfinished_bytes = now;
}

/* Frees the buffered part of the request and returns its bytes to the client's window. */
void grpc_request_drop(struct grpc_call *g) {
    grpc_reader_done(&g->reader);
    buf_done(&g->backlog);
    g->request.n = 0;
    grpc_count_unfinished(g);
    if (g->stream.unconsumed_bytes > 0)
        h2_consume(&g->stream, g->stream.unconsumed_bytes);
}

/* Passes the complete messages between `at` and `end` to the handler, until the handler holds the
 * call or the call is finished. Returns the end of the bytes that it read. */
static const uint8_t *grpc_request_read(struct grpc_call *g, const uint8_t *at,
                                        const uint8_t *end) {
    struct h2_conn *h = g->conn;
    struct grpc_frame frame;
    struct err e;
    g->reading = true;
    while (!g->call.held && !g->call.finished) {
        enum grpc_read what = grpc_reader_next(&g->reader, &at, end, &frame);
        if (what == GRPC_READ_MORE)
            break;
        int r = what == GRPC_READ_MESSAGE ? grpc_take_message(g, &frame, &e)
                                          : grpc_read_failed(g, what, &e);
        if (r < 0)
            call_fail(&g->call, &e);
    }
    if (g->reader.partial.cap > GRPC_KEEP_BYTES)
        buf_trim(&g->reader.partial);
    grpc_count_unfinished(g);
    if (h->unfinished_bytes > grpc_limit(g, LIMIT_CONNECTION_UNFINISHED)) {
        grpc_over_limit(g, &e, ERR_LIMIT_REACHED, LIMIT_CONNECTION_UNFINISHED,
                        "size of the connection's incomplete messages");
        call_fail(&g->call, &e);
    }
    g->reading = false;
    if (g->call.finished)
        grpc_request_drop(g);
    return at;
}

static void grpc_body_ended(struct grpc_call *g) {
    struct err e;
    if (g->call.finished || g->half_closed || g->call.held || buf_len(&g->backlog) > 0)
        return; /* report the end once, and only after all messages */
    g->half_closed = true;
    if (grpc_reader_pending(&g->reader) > 0) {
        err_set(&e, ERR_MALFORMED, "read a message: the last one is truncated");
        call_fail(&g->call, &e);
        return;
    }
    grpc_call_arm(g, true);
    if (g->request.bytes && grpc_open_message(g, &g->request, &e) < 0)
        call_fail(&g->call, &e);
    call_half_close(&g->call);
}

void grpc_request_body(struct h2_stream *s, const uint8_t *bytes, size_t n) {
    struct grpc_call *g = grpc_of_stream(s);
    const uint8_t *end = bytes + n;
    const uint8_t *at = bytes;
    if (!g->call.finished && !g->call.held && buf_len(&g->backlog) == 0)
        at = grpc_request_read(g, bytes, end);
    if (g->call.finished)
        at = end;
    h2_consume(s, MIN((size_t)(at - bytes), s->unconsumed_bytes));
    /* The peer's window bounds the backlog, so buf_append fails only when out of memory. */
    if (at < end && buf_append(&g->backlog, at, (size_t)(end - at)) < 0)
        h2_reset(s);
}

void grpc_request_end(struct h2_stream *s) {
    struct grpc_call *g = grpc_of_stream(s);
    g->body_ended = true;
    grpc_body_ended(g);
}

void grpc_request_release(struct call *c) {
    struct grpc_call *g = grpc_of_call(c);
    if (g->reading)
        return;
    size_t n = buf_len(&g->backlog);
    if (n > 0) {
        const uint8_t *from = buf_data(&g->backlog);
        size_t used = (size_t)(grpc_request_read(g, from, from + n) - from);
        if (c->finished)
            return;
        buf_consume(&g->backlog, used);
        h2_consume(&g->stream, used);
    }
    if (g->body_ended)
        grpc_body_ended(g);
    conn_dirty(g->conn->conn);
}
