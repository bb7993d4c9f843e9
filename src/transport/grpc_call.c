#include "transport/grpc_call.h"

#include "base/clock.h"
#include "transport/h2_conn.h"

/* Maximum of a call's reply buffer. While the buffer is below call.unread, a message of any size
 * that fits is queued. */
#define CALL_OUT_BYTES ((size_t)64 << 20)
#define SPARE_CALLS 256

/* --- calls are pooled, so that a small call does not reach malloc --- */

static void on_deadline(struct deadline *d);

static struct grpc_call *grpc_call_make(struct server *s) {
    struct list *spare = list_pop_front(&s->spare_calls);
    if (spare) {
        s->n_spare_calls--;
        return container_of(spare, struct grpc_call, in_conn);
    }
    struct grpc_call *g = calloc(1, sizeof *g);
    if (g &&
        arena_init(&g->call.arena, GRPC_ARENA_BYTES, server_limit(s, LIMIT_MESSAGE_DECODED)) < 0) {
        free(g);
        return NULL;
    }
    if (g)
        buf_init(&g->out, CALL_OUT_BYTES);
    return g;
}

static void grpc_call_destroy(struct grpc_call *g) {
    arena_done(&g->call.arena);
    buf_done(&g->out);
    free(g);
}

/* Puts the call into the pool, or frees it if the pool is full. A pooled call keeps only the memory
 * that every call needs. */
static void grpc_call_return(struct server *s, struct grpc_call *g) {
    grpc_reader_done(&g->reader);
    buf_done(&g->backlog);
    if (g->message.blocks)
        arena_done(&g->message);
    if (g->answer.blocks)
        arena_done(&g->answer);
    if (s->n_spare_calls >= SPARE_CALLS) {
        grpc_call_destroy(g);
        return;
    }
    if (g->out.cap > GRPC_ARENA_BYTES)
        buf_done(&g->out);
    buf_clear(&g->out);
    arena_reset(&g->call.arena);
    list_push_back(&s->spare_calls, &g->in_conn);
    s->n_spare_calls++;
}

void grpc_call_pool_done(struct server *s) {
    for (struct list *node; (node = list_pop_front(&s->spare_calls));)
        grpc_call_destroy(container_of(node, struct grpc_call, in_conn));
    s->n_spare_calls = 0;
}

static struct h2_stream *on_open(void *user) {
    struct h2_conn *h = user;
    struct server *s = h->conn->server;
    struct grpc_call *g = grpc_call_make(s);
    if (!g)
        return NULL;
    struct arena arena = g->call.arena;
    struct buf out = g->out;
    *g = (struct grpc_call){.conn = h, .out = out};
    g->call = (struct call){.api = s->api,
                            .wire = &grpc_reply_wire,
                            .peer = &h->conn->peer,
                            .arena = arena,
                            .began_us = clock_us()};
    list_init(&g->in_writable);
    list_push_back(&h->calls, &g->in_conn);
    deadline_init(&g->deadline, on_deadline);
    grpc_reader_init(&g->reader, server_limit(s, LIMIT_MESSAGE_INBOUND));
    buf_init(&g->backlog, GRPC_WINDOW_BYTES);
    h->heading = g;
    return &g->stream;
}

/* Removes the call from its connection and returns it to the pool. */
void grpc_call_leave(struct grpc_call *g) {
    struct server *s = grpc_server(g);
    struct h2_conn *h = g->conn;
    call_cancel(&g->call, ERR_CANCELLED);
    if (h->heading == g)
        h->heading = NULL;
    deadline_clear(&s->deadlines, &g->deadline);
    list_remove(&g->in_conn);
    list_remove(&g->in_writable);
    h->unfinished_bytes -= g->unfinished_bytes;
    h->unread_bytes -= buf_len(&g->out);
    if (list_is_empty(&h->calls))
        h->idle_since_us = clock_us();
    grpc_call_return(s, g);
}

static void on_close(struct h2_stream *s) {
    grpc_call_leave(grpc_of_stream(s));
}

/* --- the request's headers --- */

static void on_header(struct h2_stream *s, struct str name, struct str value) {
    struct grpc_call *g = grpc_of_stream(s);
    struct arena *arena = &g->call.arena;
    struct call_header *h = arena_alloc(arena, sizeof *h + name.n + value.n);
    if (!h) {
        s->headers_too_large = true;
        return;
    }
    char *text = (char *)(h + 1);
    memcpy(text, name.p, name.n);
    memcpy(text + name.n, value.p, value.n);
    *h = (struct call_header){NULL, {text, name.n}, {text + name.n, value.n}};
    if (name.p[0] != ':') {
        h->next = g->call.headers;
        g->call.headers = h;
    } else if (str_is(name, STR(":path"))) {
        g->call.path = h->value;
    } else if (str_is(name, STR(":method"))) {
        g->method = h->value;
    } else if (str_is(name, STR(":authority"))) {
        g->call.authority = h->value;
    }
}

/* The request is not gRPC, so reply with a plain HTTP status, which any client shows. */
static void grpc_refuse_http(struct grpc_call *g, struct str status, const char *why) {
    struct h2_header header = {STR(":status"), status};
    call_refused(&g->call, why);
    if (h2_respond(&g->stream, &header, 1, true) < 0)
        h2_reset(&g->stream);
}

static bool grpc_is_type(struct str type) {
    return str_is(type, STR("application/grpc")) || str_is(type, STR("application/grpc+proto")) ||
           str_starts(type, STR("application/grpc;")) ||
           str_starts(type, STR("application/grpc+proto;"));
}

static bool grpc_list_has(struct str list, struct str item) {
    struct str part;
    while (str_split(&list, ',', &part))
        if (str_is(str_trim(part), item))
            return true;
    return false;
}

static int grpc_parse_encodings(struct grpc_call *g, struct err *e) {
    struct str encoding = call_header(&g->call, STR("grpc-encoding"));
    struct str accept = call_header(&g->call, STR("grpc-accept-encoding"));
    if (encoding.p && str_is(encoding, STR("gzip")))
        g->body_gzip = true;
    else if (encoding.p && !str_is(encoding, STR("identity")))
        return err_set(e, ERR_UNIMPLEMENTED,
                       "grpc-encoding: must be identity or gzip, got \"%.*s\"",
                       (int)MIN(encoding.n, (size_t)40), encoding.p);
    g->reply_gzip = g->body_gzip && accept.p && grpc_list_has(accept, STR("gzip"));
    return 0;
}

static int grpc_parse_headers(struct grpc_call *g, struct err *e) {
    struct call *c = &g->call;
    uint64_t timeout_us;
    if (g->stream.headers_too_large)
        return grpc_over_limit(g, e, ERR_HEADERS_TOO_LARGE, LIMIT_HEADERS_BLOCK,
                               "size or count of the request's headers");
    struct str timeout = call_header(c, STR("grpc-timeout"));
    if (timeout.p && grpc_parse_timeout(timeout, &timeout_us) < 0)
        return err_set(e, ERR_MALFORMED,
                       "grpc-timeout: must be up to 8 digits and a unit, got \"%.*s\"",
                       (int)MIN(timeout.n, (size_t)20), timeout.p);
    if (timeout.p)
        c->deadline_us = c->began_us + timeout_us;
    return grpc_parse_encodings(g, e);
}

/* Sets the call's timer. Until the request of a unary or server-stream call is complete, the limit
 * connection.request applies in addition to the client's deadline. */
void grpc_call_arm(struct grpc_call *g, bool request_complete) {
    struct server *s = grpc_server(g);
    uint64_t at = g->call.deadline_us;
    uint64_t limit = g->call.began_us + server_limit(s, LIMIT_CONNECTION_REQUEST) * 1000;
    if (!request_complete && call_has_one_request(&g->call) && (at == 0 || at > limit))
        at = limit;
    if (at != 0)
        deadline_set(&s->deadlines, &g->deadline, at);
    else
        deadline_clear(&s->deadlines, &g->deadline);
}

static void on_request(struct h2_stream *s) {
    struct grpc_call *g = grpc_of_stream(s);
    struct err e;
    struct str type = call_header(&g->call, STR("content-type"));
    g->conn->heading = NULL;
    if (!s->headers_too_large && !str_is(g->method, STR("POST"))) {
        grpc_refuse_http(g, STR("405"), "the HTTP method must be POST");
        return;
    }
    if (!s->headers_too_large && (!type.p || !grpc_is_type(type))) {
        grpc_refuse_http(g, STR("415"), "the content-type must be application/grpc");
        return;
    }
    if (grpc_parse_headers(g, &e) < 0)
        call_fail(&g->call, &e);
    else
        call_begin(&g->call);
    if (!g->call.finished)
        grpc_call_arm(g, false);
}

static void on_deadline(struct deadline *d) {
    struct grpc_call *g = container_of(d, struct grpc_call, deadline);
    if (g->conn->heading == g) {
        /* HTTP/2 allows no other frame before these headers are complete, so close the
         * connection */
        conn_close(g->conn->conn);
        return;
    }
    grpc_reply_drop(g);
    call_cancel(&g->call, ERR_DEADLINE_EXCEEDED);
}

const struct h2_events grpc_call_events = {
    .on_open = on_open,
    .on_header = on_header,
    .on_request = on_request,
    .on_body = grpc_request_body,
    .on_body_end = grpc_request_end,
    .on_body_left = grpc_reply_left,
    .on_body_at = grpc_reply_at,
    .on_pulled = grpc_reply_pulled,
    .on_close = on_close,
};
