#include "transport/h2_conn.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/grpc.h"
#include "wire/h2.h"
#include "wire/pb.h"

#define CALL_OUT_BYTES ((size_t)64 << 20) /* past call.unread one message of any size may come */
#define ARENA_FIRST_BYTES ((size_t)4096)
#define STREAM_WINDOW_BYTES (1u << 20)
#define CONNECTION_WINDOW_BYTES (4u << 20)
#define SPARE_CALLS 256
#define KEEP_BYTES ((size_t)1 << 20)     /* an empty buffer larger than this is let go */
#define ANSWER_BYTES ((size_t)64 * 1024) /* of a status with all its trailers */
#define GZIP_WORTH_BYTES 256
#define MAX_REPLY_HEADERS 64

struct h2_conn {
    struct conn *conn;
    struct h2 *h2;
    struct list calls;
    struct list thirsty;       /* calls whose handler may send again */
    struct grpc_call *heading; /* whose headers have begun and not ended; nothing else comes then */
    size_t unfinished_bytes;   /* of messages being put together */
    size_t unread_bytes;       /* of answers the peer has not taken */
    uint64_t idle_since_us;
    uint64_t pinged_us; /* when we asked whether the peer lives; 0 = not asked */
};

struct grpc_call {
    struct h2_stream stream;
    struct call call;
    struct h2_conn *conn;
    struct list in_conn;
    struct list in_thirsty;
    struct deadline deadline;
    struct grpc_reader reader;
    struct grpc_frame request; /* a single request, kept as it came until the body has ended */
    struct arena message;      /* of a streamed request: emptied after each */
    struct arena answer;       /* status and trailers; the request's own arena is gone by then */
    struct buf out;
    struct buf backlog;      /* body that came while the handler held the call */
    size_t unfinished_bytes; /* our share of the connection's */
    struct str method;
    bool body_ended;
    bool half_closed; /* and the handler knows */
    bool body_gzip;
    bool reply_gzip;
    bool reading; /* inside read_body: a release there needs no second loop */
    bool full;    /* call_send answered FULL */
};

static struct grpc_call *of_stream(struct h2_stream *s) {
    return container_of(s, struct grpc_call, stream);
}
static struct grpc_call *of_call(struct call *c) {
    return container_of(c, struct grpc_call, call);
}
static struct server *server_of(const struct grpc_call *g) {
    return g->conn->conn->server;
}

static size_t limit_of(const struct grpc_call *g, enum limit_id id) {
    return server_limit(server_of(g), id);
}

static int over_limit(const struct grpc_call *g, struct err *e, enum err_code code,
                      enum limit_id id, const char *what) {
    size_t value = limit_of(g, id);
    return err_limit(e, code, id, (int64_t)value, "%s exceeds %s, %zu", what, limit_table[id].name,
                     value);
}

/* --- calls come from a pool, so that a small one costs no trip to the allocator --- */

static void on_deadline(struct deadline *d);
static const struct call_wire wire;

static struct grpc_call *call_make(struct server *s) {
    struct list *spare = list_pop_front(&s->spare_calls);
    if (spare) {
        s->n_spare_calls--;
        return container_of(spare, struct grpc_call, in_conn);
    }
    struct grpc_call *g = calloc(1, sizeof *g);
    if (g &&
        arena_init(&g->call.arena, ARENA_FIRST_BYTES, server_limit(s, LIMIT_MESSAGE_DECODED)) < 0) {
        free(g);
        return NULL;
    }
    if (g)
        buf_init(&g->out, CALL_OUT_BYTES);
    return g;
}

static void call_destroy(struct grpc_call *g) {
    arena_done(&g->call.arena);
    buf_done(&g->out);
    free(g);
}

/* What only some calls need goes at once; the rest waits for the next request. */
static void call_return(struct server *s, struct grpc_call *g) {
    grpc_reader_done(&g->reader);
    buf_done(&g->backlog);
    if (g->message.blocks)
        arena_done(&g->message);
    if (g->answer.blocks)
        arena_done(&g->answer);
    if (s->n_spare_calls >= SPARE_CALLS) {
        call_destroy(g);
        return;
    }
    if (g->out.cap > ARENA_FIRST_BYTES)
        buf_done(&g->out);
    buf_clear(&g->out);
    arena_reset(&g->call.arena);
    list_push_back(&s->spare_calls, &g->in_conn);
    s->n_spare_calls++;
}

void h2_conn_pool_done(struct server *s) {
    for (struct list *node; (node = list_pop_front(&s->spare_calls));)
        call_destroy(container_of(node, struct grpc_call, in_conn));
    s->n_spare_calls = 0;
}

static struct h2_stream *on_open(void *user) {
    struct h2_conn *h = user;
    struct server *s = h->conn->server;
    struct grpc_call *g = call_make(s);
    if (!g)
        return NULL;
    struct arena arena = g->call.arena;
    struct buf out = g->out;
    *g = (struct grpc_call){.conn = h, .out = out};
    g->call = (struct call){.api = s->api,
                            .wire = &wire,
                            .peer = &h->conn->peer,
                            .arena = arena,
                            .began_us = clock_us()};
    list_init(&g->in_thirsty);
    list_push_back(&h->calls, &g->in_conn);
    deadline_init(&g->deadline, on_deadline);
    grpc_reader_init(&g->reader, server_limit(s, LIMIT_MESSAGE_INBOUND));
    buf_init(&g->backlog, STREAM_WINDOW_BYTES);
    h->heading = g;
    return &g->stream;
}

/* Takes the call out of the connection; nobody may know of it any more. */
static void call_leave(struct grpc_call *g) {
    struct server *s = server_of(g);
    struct h2_conn *h = g->conn;
    call_cancel(&g->call, ERR_CANCELLED);
    if (h->heading == g)
        h->heading = NULL;
    deadline_clear(&s->deadlines, &g->deadline);
    list_remove(&g->in_conn);
    list_remove(&g->in_thirsty);
    h->unfinished_bytes -= g->unfinished_bytes;
    h->unread_bytes -= buf_len(&g->out);
    if (list_is_empty(&h->calls))
        h->idle_since_us = clock_us();
    call_return(s, g);
}

static void on_close(struct h2_stream *s) {
    call_leave(of_stream(s));
}

/* --- the request's headers --- */

static void on_header(struct h2_stream *s, struct str name, struct str value) {
    struct grpc_call *g = of_stream(s);
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

/* Not gRPC at all: a plain HTTP status, which any client shows. */
static void refuse_http(struct grpc_call *g, struct str status, const char *why) {
    struct h2_header header = {STR(":status"), status};
    call_refused(&g->call, why);
    if (h2_respond(&g->stream, &header, 1, true) < 0)
        h2_reset(&g->stream);
}

static bool is_grpc(struct str type) {
    return str_is(type, STR("application/grpc")) || str_is(type, STR("application/grpc+proto")) ||
           str_starts(type, STR("application/grpc;")) ||
           str_starts(type, STR("application/grpc+proto;"));
}

static bool list_has(struct str list, struct str item) {
    struct str part;
    while (str_split(&list, ',', &part))
        if (str_is(str_trim(part), item))
            return true;
    return false;
}

static int parse_encodings(struct grpc_call *g, struct err *e) {
    struct str encoding = call_header(&g->call, STR("grpc-encoding"));
    struct str accept = call_header(&g->call, STR("grpc-accept-encoding"));
    if (encoding.p && str_is(encoding, STR("gzip")))
        g->body_gzip = true;
    else if (encoding.p && !str_is(encoding, STR("identity")))
        return err_set(e, ERR_UNIMPLEMENTED,
                       "grpc-encoding \"%.*s\": identity and gzip are understood",
                       (int)MIN(encoding.n, (size_t)40), encoding.p);
    g->reply_gzip = g->body_gzip && accept.p && list_has(accept, STR("gzip"));
    return 0;
}

static int parse_headers(struct grpc_call *g, struct err *e) {
    struct call *c = &g->call;
    uint64_t timeout_us;
    if (g->stream.headers_too_large)
        return over_limit(g, e, ERR_HEADERS_TOO_LARGE, LIMIT_HEADERS_BLOCK,
                          "the request's headers, in bytes or fields,");
    struct str timeout = call_header(c, STR("grpc-timeout"));
    if (timeout.p && grpc_parse_timeout(timeout, &timeout_us) < 0)
        return err_set(e, ERR_MALFORMED, "grpc-timeout \"%.*s\" is not digits and a unit",
                       (int)MIN(timeout.n, (size_t)20), timeout.p);
    if (timeout.p)
        c->deadline_us = c->began_us + timeout_us;
    return parse_encodings(g, e);
}

/* Until a single request is complete, the wait for it is bounded as well. */
static void arm_deadline(struct grpc_call *g, bool request_complete) {
    struct server *s = server_of(g);
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
    struct grpc_call *g = of_stream(s);
    struct err e;
    struct str type = call_header(&g->call, STR("content-type"));
    g->conn->heading = NULL;
    if (!s->headers_too_large && !str_is(g->method, STR("POST"))) {
        refuse_http(g, STR("405"), "a call is a POST");
        return;
    }
    if (!s->headers_too_large && (!type.p || !is_grpc(type))) {
        refuse_http(g, STR("415"), "the content type is not application/grpc");
        return;
    }
    if (parse_headers(g, &e) < 0)
        call_fail(&g->call, &e);
    else
        call_begin(&g->call);
    if (!g->call.finished)
        arm_deadline(g, false);
}

/* Nobody waits for the answer any more. A frame that is already announced keeps its bytes. */
static void drop_answer(struct grpc_call *g) {
    g->conn->unread_bytes -= buf_len(&g->out) - g->stream.promised_bytes;
    buf_truncate(&g->out, g->stream.promised_bytes);
}

static void on_deadline(struct deadline *d) {
    struct grpc_call *g = container_of(d, struct grpc_call, deadline);
    if (g->conn->heading == g) {
        conn_close(g->conn->conn); /* nothing else can come behind headers without an end */
        return;
    }
    drop_answer(g);
    call_cancel(&g->call, ERR_DEADLINE_EXCEEDED);
}

/* --- the request's messages --- */

static int decode(struct grpc_call *g, const uint8_t *bytes, size_t n, struct err *e) {
    struct call *c = &g->call;
    ProtobufCMessage *m;
    struct arena *arena = call_has_one_request(c) ? &c->arena : &g->message;
    if (arena == &g->message && !arena->blocks &&
        arena_init(arena, ARENA_FIRST_BYTES, limit_of(g, LIMIT_MESSAGE_DECODED)) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "out of memory");
    int r = pb_decode(c->method->request, bytes, n, arena, &m, e);
    if (r < 0)
        return r;
    call_message(c, m);
    if (arena == &g->message)
        arena_reset(arena);
    return 0;
}

/* Each answer may be as large as its question, so who does not read gets no more of them. */
static int check_unread(const struct grpc_call *g, struct err *e) {
    if (g->conn->unread_bytes <= limit_of(g, LIMIT_CONNECTION_UNREAD))
        return 0;
    return over_limit(g, e, ERR_LIMIT_REACHED, LIMIT_CONNECTION_UNREAD,
                      "what the connection has not read of its answers");
}

static int open_message(struct grpc_call *g, const struct grpc_frame *frame, struct err *e) {
    struct server *s = server_of(g);
    if (check_unread(g, e) < 0)
        return -(int)e->code;
    if (!frame->compressed)
        return decode(g, frame->bytes, frame->n, e);
    struct buf plain;
    buf_init(&plain, server_limit(s, LIMIT_MESSAGE_INBOUND));
    int r = gzip_inflate(s->gzip, frame->bytes, frame->n, &plain);
    if (r == -ENOBUFS)
        r = over_limit(g, e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND, "an inflated message");
    else if (r < 0)
        r = err_set(e, ERR_MALFORMED, "a message is not valid gzip");
    else
        r = decode(g, plain.block ? buf_data(&plain) : frame->bytes, buf_len(&plain), e);
    buf_done(&plain);
    return r;
}

/* A single request waits for the end of its body as it came: decoded it may be far larger. */
static int take_message(struct grpc_call *g, const struct grpc_frame *frame, struct err *e) {
    g->call.bytes_in += frame->n;
    if (frame->compressed && !g->body_gzip)
        return err_set(e, ERR_MALFORMED,
                       "a message is marked compressed, but grpc-encoding is not set");
    if (!call_has_one_request(&g->call))
        return open_message(g, frame, e);
    if (g->request.bytes) {
        call_wrong_count(&g->call, "not several");
        return 0;
    }
    g->request = *frame;
    g->request.bytes = (uint8_t *)arena_copy(&g->call.arena, frame->bytes, frame->n);
    if (g->request.bytes)
        return 0;
    return over_limit(g, e, ERR_LIMIT_REACHED, LIMIT_MESSAGE_DECODED, "a request");
}

static int read_failed(struct grpc_call *g, enum grpc_read what, struct err *e) {
    if (what == GRPC_READ_TOO_LARGE)
        return over_limit(g, e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND, "a message");
    if (what == GRPC_READ_BAD)
        return err_set(e, ERR_MALFORMED, "a message prefix is not valid");
    return err_set(e, ERR_LIMIT_REACHED, "out of memory");
}

static void count_unfinished(struct grpc_call *g) {
    size_t now = grpc_reader_pending(&g->reader) + g->request.n;
    g->conn->unfinished_bytes += now - g->unfinished_bytes;
    g->unfinished_bytes = now;
}

/* What the client still sends is of no use: give its window back and let the memory go. */
static void drop_request(struct grpc_call *g) {
    grpc_reader_done(&g->reader);
    buf_done(&g->backlog);
    g->request.n = 0;
    count_unfinished(g);
    if (g->stream.unconsumed_bytes > 0)
        h2_consume(&g->stream, g->stream.unconsumed_bytes);
}

/* Hands on the whole messages between `at` and `end` until the handler holds the call or it is over;
 * then nothing is left to read. Returns where it stopped. */
static const uint8_t *read_body(struct grpc_call *g, const uint8_t *at, const uint8_t *end) {
    struct h2_conn *h = g->conn;
    struct grpc_frame frame;
    struct err e;
    g->reading = true;
    while (!g->call.held && !g->call.finished) {
        enum grpc_read what = grpc_reader_next(&g->reader, &at, end, &frame);
        if (what == GRPC_READ_MORE)
            break;
        int r = what == GRPC_READ_MESSAGE ? take_message(g, &frame, &e) : read_failed(g, what, &e);
        if (r < 0)
            call_fail(&g->call, &e);
    }
    if (g->reader.partial.cap > KEEP_BYTES)
        buf_trim(&g->reader.partial);
    count_unfinished(g);
    if (h->unfinished_bytes > limit_of(g, LIMIT_CONNECTION_UNFINISHED)) {
        over_limit(g, &e, ERR_LIMIT_REACHED, LIMIT_CONNECTION_UNFINISHED,
                   "what the connection's unfinished messages hold");
        call_fail(&g->call, &e);
    }
    g->reading = false;
    if (g->call.finished)
        drop_request(g);
    return at;
}

static void body_ended(struct grpc_call *g) {
    struct err e;
    if (g->call.finished || g->half_closed || g->call.held || buf_len(&g->backlog) > 0)
        return; /* the end waits its turn behind the messages */
    g->half_closed = true;
    if (grpc_reader_pending(&g->reader) > 0) {
        err_set(&e, ERR_MALFORMED, "the last message is cut short");
        call_fail(&g->call, &e);
        return;
    }
    arm_deadline(g, true);
    if (g->request.bytes && open_message(g, &g->request, &e) < 0)
        call_fail(&g->call, &e);
    call_half_close(&g->call);
}

static void on_body(struct h2_stream *s, const uint8_t *bytes, size_t n) {
    struct grpc_call *g = of_stream(s);
    const uint8_t *end = bytes + n;
    const uint8_t *at = bytes;
    if (!g->call.finished && !g->call.held && buf_len(&g->backlog) == 0)
        at = read_body(g, bytes, end);
    if (g->call.finished)
        at = end;
    h2_consume(s, MIN((size_t)(at - bytes), s->unconsumed_bytes));
    /* The peer's window bounds the backlog, so a failure here is memory. */
    if (at < end && buf_append(&g->backlog, at, (size_t)(end - at)) < 0)
        h2_reset(s);
}

static void on_body_end(struct h2_stream *s) {
    struct grpc_call *g = of_stream(s);
    g->body_ended = true;
    body_ended(g);
}

static void wire_release(struct call *c) {
    struct grpc_call *g = of_call(c);
    if (g->reading)
        return;
    size_t n = buf_len(&g->backlog);
    if (n > 0) {
        const uint8_t *from = buf_data(&g->backlog);
        size_t used = (size_t)(read_body(g, from, from + n) - from);
        if (c->finished)
            return;
        buf_consume(&g->backlog, used);
        h2_consume(&g->stream, used);
    }
    if (g->body_ended)
        body_ended(g);
    conn_dirty(g->conn->conn);
}

/* --- the response --- */

static size_t add_headers(struct h2_header *out, size_t at, const struct call_header *list) {
    for (; list && at < MAX_REPLY_HEADERS; list = list->next)
        out[at++] = (struct h2_header){list->name, list->value};
    return at;
}

static size_t response_headers(const struct grpc_call *g, struct h2_header *out) {
    size_t n = 0;
    out[n++] = (struct h2_header){STR(":status"), STR("200")};
    out[n++] = (struct h2_header){STR("content-type"), STR("application/grpc")};
    out[n++] = (struct h2_header){STR("grpc-accept-encoding"), STR("gzip")};
    if (g->reply_gzip)
        out[n++] = (struct h2_header){STR("grpc-encoding"), STR("gzip")};
    return add_headers(out, n, g->call.reply_headers);
}

static int send_headers(struct grpc_call *g) {
    struct h2_header headers[MAX_REPLY_HEADERS];
    return g->stream.responded
               ? 0
               : h2_respond(&g->stream, headers, response_headers(g, headers), false);
}

static void wire_send_headers(struct call *c) {
    struct grpc_call *g = of_call(c);
    if (send_headers(g) < 0)
        h2_reset(&g->stream);
    conn_dirty(g->conn->conn);
}

/* Puts prefix and message behind what is queued. */
static int queue_plain(struct grpc_call *g, const ProtobufCMessage *m, size_t n) {
    uint8_t *at;
    int r = buf_reserve(&g->out, GRPC_PREFIX_BYTES + n, &at);
    if (r < 0)
        return r;
    grpc_put_prefix(at, false, n);
    protobuf_c_message_pack(m, at + GRPC_PREFIX_BYTES);
    buf_commit(&g->out, GRPC_PREFIX_BYTES + n);
    return 0;
}

static int queue_gzip(struct grpc_call *g, const ProtobufCMessage *m, size_t n) {
    AUTO_FREE uint8_t *plain = malloc(n);
    uint8_t *at;
    size_t start = buf_len(&g->out);
    int r = plain ? buf_reserve(&g->out, GRPC_PREFIX_BYTES, &at) : -ENOMEM;
    if (r < 0)
        return r;
    buf_commit(&g->out, GRPC_PREFIX_BYTES);
    protobuf_c_message_pack(m, plain);
    r = gzip_deflate(server_of(g)->gzip, plain, n, &g->out);
    if (r == 0)
        grpc_put_prefix(buf_data(&g->out) + start, true,
                        buf_len(&g->out) - start - GRPC_PREFIX_BYTES);
    return r;
}

static enum call_room wire_send(struct call *c, const ProtobufCMessage *m) {
    struct grpc_call *g = of_call(c);
    struct err e;
    size_t n = protobuf_c_message_get_packed_size(m);
    size_t before = buf_len(&g->out);
    int r = send_headers(g);
    if (r == 0)
        r = g->reply_gzip && n >= GZIP_WORTH_BYTES ? queue_gzip(g, m, n) : queue_plain(g, m, n);
    if (r < 0) {
        buf_truncate(&g->out, before);
        err_set(&e, ERR_LIMIT_REACHED, "a response of %zu bytes does not fit", n);
        call_fail(c, &e);
        return CALL_GONE;
    }
    c->bytes_out += n;
    g->conn->unread_bytes += buf_len(&g->out) - before;
    h2_resume(&g->stream);
    conn_dirty(g->conn->conn);
    g->full = buf_len(&g->out) >= limit_of(g, LIMIT_CALL_UNREAD);
    return g->full ? CALL_FULL : CALL_OK;
}

/* The details of a status: our own error's, or those the handler brought. */
static struct str status_details(struct grpc_call *g, const struct call_status *status) {
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

static size_t status_trailers(struct grpc_call *g, const struct call_status *status,
                              struct h2_header *out, size_t at) {
    static const char numbers[] = "012345678910111213141516";
    unsigned code = status->code;
    struct str number = code < 10 ? (struct str){numbers + code, 1}
                                  : (struct str){numbers + 10 + (code - 10) * 2, 2};
    struct str details = status_details(g, status);
    out[at++] = (struct h2_header){STR("grpc-status"), number};
    if (status->message.n > 0)
        out[at++] = (struct h2_header){STR("grpc-message"),
                                       grpc_encode_message(status->message, &g->answer)};
    if (details.n > 0)
        out[at++] = (struct h2_header){STR("grpc-status-details-bin"), details};
    return add_headers(out, at, g->call.reply_trailers);
}

/* The handler's trailers, where they outlive the call's arena; what does not fit is left out. */
static void keep_trailers(struct grpc_call *g) {
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

static void send_status(struct grpc_call *g, const struct call_status *status) {
    static const struct h2_header ok[] = {{{"grpc-status", 11}, {"0", 1}}};
    if (g->stream.responded && status->code == GRPC_OK && !g->call.reply_trailers) {
        h2_finish(&g->stream, ok, COUNT_OF(ok));
        return;
    }
    struct h2_header *headers = NULL;
    if (arena_init(&g->answer, ARENA_FIRST_BYTES, ANSWER_BYTES) == 0)
        headers = arena_alloc(&g->answer, (MAX_REPLY_HEADERS + 4) * sizeof *headers);
    if (!headers) {
        h2_reset(&g->stream);
        return;
    }
    keep_trailers(g);
    size_t n = g->stream.responded ? 0 : response_headers(g, headers);
    n = status_trailers(g, status, headers, MIN(n, (size_t)MAX_REPLY_HEADERS - 4));
    if (g->stream.responded)
        h2_finish(&g->stream, headers, n);
    else if (h2_respond(&g->stream, headers, n, true) < 0)
        h2_reset(&g->stream);
}

/* However long the client takes to fetch the answer, the request's memory goes now. */
static void wire_finish(struct call *c, const struct call_status *status) {
    struct grpc_call *g = of_call(c);
    deadline_clear(&server_of(g)->deadlines, &g->deadline);
    send_status(g, status);
    if (!g->reading)
        drop_request(g);
    arena_reset(&c->arena);
    conn_dirty(g->conn->conn);
}

static const struct call_wire wire = {wire_send_headers, wire_send, wire_finish, wire_release};

static size_t on_body_left(struct h2_stream *s) {
    return buf_len(&of_stream(s)->out);
}

static void on_pull(struct h2_stream *s, uint8_t *out, size_t n) {
    struct grpc_call *g = of_stream(s);
    memcpy(out, buf_data(&g->out), n);
    buf_consume(&g->out, n);
    if (g->out.cap > KEEP_BYTES)
        buf_trim(&g->out);
    g->conn->unread_bytes -= n;
    if (g->full && buf_len(&g->out) < limit_of(g, LIMIT_CALL_UNREAD) / 2) {
        g->full = false;
        list_remove(&g->in_thirsty);
        list_push_back(&g->conn->thirsty, &g->in_thirsty);
    }
}

static const struct h2_events h2_events = {
    .on_open = on_open,
    .on_header = on_header,
    .on_request = on_request,
    .on_body = on_body,
    .on_body_end = on_body_end,
    .on_body_left = on_body_left,
    .on_pull = on_pull,
    .on_close = on_close,
};

/* --- the connection --- */

static void conn_bytes(struct conn *c, const uint8_t *bytes, size_t n) {
    struct h2_conn *h = c->state;
    h->pinged_us = 0;
    bool over = h2_feed(h->h2, bytes, n) < 0;
    if (h->heading && !h->heading->deadline.is_set) {
        uint64_t limit_us = server_limit(c->server, LIMIT_CONNECTION_REQUEST) * 1000;
        deadline_set(&c->server->deadlines, &h->heading->deadline,
                     h->heading->call.began_us + limit_us);
    }
    if (over)
        conn_finish(c); /* the goodbye still goes out */
    else
        conn_dirty(c);
}

/* Handlers that wait for room are woken between pulls, never inside one. */
static size_t conn_pull(struct conn *c, uint8_t *out, size_t cap, bool *ret_more) {
    struct h2_conn *h = c->state;
    size_t used = 0;
    do {
        ssize_t n = h2_pull(h->h2, out + used, cap - used, ret_more);
        if (n < 0) {
            conn_close(c);
            return 0;
        }
        used += (size_t)n;
        if (list_is_empty(&h->thirsty))
            break;
        for (struct list *node; (node = list_pop_front(&h->thirsty));)
            call_wake(&container_of(node, struct grpc_call, in_thirsty)->call);
    } while (!*ret_more);
    if (h2_is_done(h->h2))
        conn_finish(c);
    return used;
}

/* One timer for both questions: does a silent peer live, and is an idle one worth keeping? */
static void conn_timer(struct conn *c) {
    struct h2_conn *h = c->state;
    uint64_t silence_us = server_limit(c->server, LIMIT_KEEPALIVE_INTERVAL) * 1000;
    uint64_t answer_us = server_limit(c->server, LIMIT_KEEPALIVE_TIMEOUT) * 1000;
    uint64_t idle_us = server_limit(c->server, LIMIT_CONNECTION_IDLE) * 1000;
    uint64_t now = clock_us();
    uint64_t next = now + silence_us;
    if (h->pinged_us != 0 && now - h->pinged_us >= answer_us) {
        log_text(LOG_INFO, "connection_dead", "%s did not answer a ping", c->peer.text);
        conn_close(c);
        return;
    }
    if (list_is_empty(&h->calls) && idle_us != 0 && now - h->idle_since_us >= idle_us) {
        h2_drain(h->h2, false);
        conn_dirty(c);
    } else if (h->pinged_us == 0 && now - c->heard_us >= silence_us) {
        h->pinged_us = now;
        h2_ping(h->h2);
        conn_dirty(c);
        next = now + answer_us;
    }
    deadline_set(&c->server->deadlines, &c->timer, next);
}

static void conn_drain(struct conn *c) {
    struct h2_conn *h = c->state;
    LIST_FOR_EACH(node, &h->calls)
        call_drain(&container_of(node, struct grpc_call, in_conn)->call);
    h2_drain(h->h2, !list_is_empty(&h->calls));
    conn_dirty(c);
}

static void conn_gone(struct conn *c) {
    struct h2_conn *h = c->state;
    while (!list_is_empty(&h->calls))
        call_leave(container_of(h->calls.next, struct grpc_call, in_conn));
    h2_free(h->h2);
    free(h);
    c->state = NULL;
}

static const struct conn_protocol protocol = {conn_bytes, conn_pull, conn_timer, conn_drain,
                                              conn_gone};

int h2_conn_start(struct conn *c) {
    struct server *s = c->server;
    struct h2_limits limits = {
        .max_streams = (uint32_t)server_limit(s, LIMIT_CONNECTION_STREAMS),
        .stream_window_bytes = STREAM_WINDOW_BYTES,
        .connection_window_bytes = CONNECTION_WINDOW_BYTES,
        .max_header_bytes = (uint32_t)server_limit(s, LIMIT_HEADERS_BLOCK),
    };
    struct h2_conn *h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->conn = c;
    h->idle_since_us = clock_us();
    list_init(&h->calls);
    list_init(&h->thirsty);
    if (h2_new(&h->h2, &h2_events, &limits, h) < 0) {
        free(h);
        return -ENOMEM;
    }
    c->state = h;
    c->protocol = &protocol;
    deadline_set(&s->deadlines, &c->timer,
                 clock_us() + server_limit(s, LIMIT_KEEPALIVE_INTERVAL) * 1000);
    return 0;
}
