#include <errno.h>

#include "transport/grpc_call.h"
#include "wire/gzip.h"

#define ANSWER_BYTES ((size_t)64 * 1024) /* maximum size of a status and its trailers */
#define GZIP_WORTH_BYTES 256
#define MAX_REPLY_HEADERS 64

void grpc_reply_drop(struct grpc_call *g) {
    g->conn->unread_bytes -= buf_len(&g->out) - g->stream.promised_bytes;
    buf_truncate(&g->out, g->stream.promised_bytes);
}

static size_t grpc_add_headers(struct h2_header *out, size_t at, const struct call_header *list) {
    for (; list && at < MAX_REPLY_HEADERS; list = list->next)
        out[at++] = (struct h2_header){list->name, list->value};
    return at;
}

static size_t grpc_reply_headers(const struct grpc_call *g, struct h2_header *out) {
    size_t n = 0;
    out[n++] = (struct h2_header){STR(":status"), STR("200")};
    out[n++] = (struct h2_header){STR("content-type"), STR("application/grpc")};
    out[n++] = (struct h2_header){STR("grpc-accept-encoding"), STR("gzip")};
    if (g->reply_gzip)
        out[n++] = (struct h2_header){STR("grpc-encoding"), STR("gzip")};
    return grpc_add_headers(out, n, g->call.reply_headers);
}

static int grpc_send_headers(struct grpc_call *g) {
    struct h2_header headers[MAX_REPLY_HEADERS];
    return g->stream.responded
               ? 0
               : h2_respond(&g->stream, headers, grpc_reply_headers(g, headers), false);
}

static void grpc_wire_send_headers(struct call *c) {
    struct grpc_call *g = grpc_of_call(c);
    if (grpc_send_headers(g) < 0)
        h2_reset(&g->stream);
    conn_dirty(g->conn->conn);
}

/* Appends prefix and message to the queue. */
static int grpc_queue_plain(struct grpc_call *g, const ProtobufCMessage *m, size_t n) {
    uint8_t *at;
    int r = buf_reserve(&g->out, GRPC_PREFIX_BYTES + n, &at);
    if (r < 0)
        return r;
    grpc_put_prefix(at, false, n);
    protobuf_c_message_pack(m, at + GRPC_PREFIX_BYTES);
    buf_commit(&g->out, GRPC_PREFIX_BYTES + n);
    return 0;
}

static int grpc_queue_gzip(struct grpc_call *g, const ProtobufCMessage *m, size_t n) {
    AUTO_FREE uint8_t *plain = malloc(n);
    uint8_t *at;
    size_t start = buf_len(&g->out);
    int r = plain ? buf_reserve(&g->out, GRPC_PREFIX_BYTES, &at) : -ENOMEM;
    if (r < 0)
        return r;
    buf_commit(&g->out, GRPC_PREFIX_BYTES);
    protobuf_c_message_pack(m, plain);
    r = gzip_deflate(grpc_server(g)->gzip, plain, n, &g->out);
    if (r == 0)
        grpc_put_prefix(buf_data(&g->out) + start, true,
                        buf_len(&g->out) - start - GRPC_PREFIX_BYTES);
    return r;
}

/* Ends a send. If r is 0, a message of n bytes was appended to the queue, which had `before` bytes.
 * Otherwise r is the error, and the call fails. */
static enum call_push grpc_reply_queued(struct grpc_call *g, size_t before, size_t n, int r) {
    struct err e;
    if (r < 0) {
        buf_truncate(&g->out, before);
        err_set(&e, ERR_LIMIT_REACHED, "queue a reply of %zu bytes: the buffer is full", n);
        call_fail(&g->call, &e);
        return CALL_GONE;
    }
    g->call.bytes_out += n;
    g->conn->unread_bytes += buf_len(&g->out) - before;
    h2_resume(&g->stream);
    conn_dirty(g->conn->conn);
    g->full = buf_len(&g->out) >= grpc_limit(g, LIMIT_CALL_UNREAD);
    return g->full ? CALL_FULL : CALL_OK;
}

static enum call_push grpc_wire_send(struct call *c, const ProtobufCMessage *m) {
    struct grpc_call *g = grpc_of_call(c);
    size_t n = protobuf_c_message_get_packed_size(m);
    size_t before = buf_len(&g->out);
    int r = grpc_send_headers(g);
    if (r == 0)
        r = g->reply_gzip && n >= GZIP_WORTH_BYTES ? grpc_queue_gzip(g, m, n)
                                                   : grpc_queue_plain(g, m, n);
    return grpc_reply_queued(g, before, n, r);
}

static uint8_t *grpc_wire_reserve(struct call *c, size_t n) {
    struct grpc_call *g = grpc_of_call(c);
    uint8_t *at;
    if (g->reply_gzip || buf_reserve(&g->out, GRPC_PREFIX_BYTES + n, &at) < 0)
        return NULL;
    return at + GRPC_PREFIX_BYTES;
}

static enum call_push grpc_wire_send_reserved(struct call *c, size_t n) {
    struct grpc_call *g = grpc_of_call(c);
    uint8_t *at;
    size_t before = buf_len(&g->out);
    /* the space that grpc_wire_reserve returned */
    int r = buf_reserve(&g->out, GRPC_PREFIX_BYTES + n, &at);
    if (r == 0) {
        grpc_put_prefix(at, false, n);
        buf_commit(&g->out, GRPC_PREFIX_BYTES + n);
        r = grpc_send_headers(g);
    }
    return grpc_reply_queued(g, before, n, r);
}

/* Encodes the details of a status: those of status->err if it is set, otherwise the handler's. */
static struct str grpc_status_details(struct grpc_call *g, const struct call_status *status) {
    struct grpc_detail own[GRPC_ERROR_DETAILS];
    struct arena *arena = &g->answer;
    if (status->err)
        return grpc_encode_status(status->code, status->message, own,
                                  grpc_error_details(status->err, arena, own), arena);
    if (status->n_details == 0)
        return (struct str){0};
    struct grpc_detail *all = arena_alloc(arena, status->n_details * sizeof *all);
    for (size_t i = 0; all && i < status->n_details; i++)
        all[i] = (struct grpc_detail){status->details[i].type_url, status->details[i].bytes,
                                      status->details[i].n};
    return all ? grpc_encode_status(status->code, status->message, all, status->n_details, arena)
               : (struct str){0};
}

static size_t grpc_status_trailers(struct grpc_call *g, const struct call_status *status,
                                   struct h2_header *out, size_t at) {
    static const char numbers[] = "012345678910111213141516";
    unsigned code = status->code;
    struct str number = code < 10 ? (struct str){numbers + code, 1}
                                  : (struct str){numbers + 10 + (code - 10) * 2, 2};
    struct str details = grpc_status_details(g, status);
    out[at++] = (struct h2_header){STR("grpc-status"), number};
    if (status->message.n > 0)
        out[at++] = (struct h2_header){STR("grpc-message"),
                                       grpc_encode_message(status->message, &g->answer)};
    if (details.n > 0)
        out[at++] = (struct h2_header){STR("grpc-status-details-bin"), details};
    return grpc_add_headers(out, at, g->call.reply_trailers);
}

/* Copies the handler's trailers into g->answer, because the call's arena is reset before they are
 * sent. Drops the trailers from the first one that does not fit. */
static void grpc_keep_trailers(struct grpc_call *g) {
    for (struct call_header **at = &g->call.reply_trailers; *at; at = &(*at)->next) {
        struct call_header *h = *at;
        h->name.p = arena_copy(&g->answer, h->name.p, h->name.n);
        h->value.p = arena_copy(&g->answer, h->value.p, h->value.n);
        if (!h->name.p || !h->value.p) {
            *at = NULL;
            return;
        }
    }
}

static void grpc_send_status(struct grpc_call *g, const struct call_status *status) {
    static const struct h2_header ok[] = {{{"grpc-status", 11}, {"0", 1}}};
    if (g->stream.responded && status->code == GRPC_OK && !g->call.reply_trailers) {
        h2_finish(&g->stream, ok, COUNT_OF(ok));
        return;
    }
    struct h2_header *headers = NULL;
    if (arena_init(&g->answer, GRPC_ARENA_BYTES, ANSWER_BYTES) == 0)
        headers = arena_alloc(&g->answer, (MAX_REPLY_HEADERS + 4) * sizeof *headers);
    if (!headers) {
        h2_reset(&g->stream);
        return;
    }
    grpc_keep_trailers(g);
    size_t n = g->stream.responded ? 0 : grpc_reply_headers(g, headers);
    n = grpc_status_trailers(g, status, headers, MIN(n, (size_t)MAX_REPLY_HEADERS - 4));
    if (g->stream.responded)
        h2_finish(&g->stream, headers, n);
    else if (h2_respond(&g->stream, headers, n, true) < 0)
        h2_reset(&g->stream);
}

/* Sends the status. Frees the request's memory now, because the client may read the reply late. */
static void grpc_wire_finish(struct call *c, const struct call_status *status) {
    struct grpc_call *g = grpc_of_call(c);
    deadline_clear(&grpc_server(g)->deadlines, &g->deadline);
    grpc_send_status(g, status);
    if (!g->reading)
        grpc_request_drop(g);
    arena_reset(&c->arena);
    conn_dirty(g->conn->conn);
}

const struct call_wire grpc_reply_wire = {grpc_wire_send_headers, grpc_wire_send,
                                          grpc_wire_finish,       grpc_request_release,
                                          grpc_wire_reserve,      grpc_wire_send_reserved};

size_t grpc_reply_left(struct h2_stream *s) {
    return buf_len(&grpc_of_stream(s)->out);
}

const uint8_t *grpc_reply_at(struct h2_stream *s) {
    return buf_data(&grpc_of_stream(s)->out);
}

void grpc_reply_pulled(struct h2_stream *s, size_t n) {
    struct grpc_call *g = grpc_of_stream(s);
    buf_consume(&g->out, n);
    if (g->out.cap > GRPC_KEEP_BYTES)
        buf_trim(&g->out);
    g->conn->unread_bytes -= n;
    if (g->full && buf_len(&g->out) < grpc_limit(g, LIMIT_CALL_UNREAD) / 2) {
        g->full = false;
        list_remove(&g->in_writable);
        list_push_back(&g->conn->writable, &g->in_writable);
    }
}
