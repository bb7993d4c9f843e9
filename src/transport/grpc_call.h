/* grpc_call — one gRPC call on an HTTP/2 stream: the transport side of struct call.
 *
 * Owner:   its h2_conn.                 End: the stream's on_close, or the end of the connection.
 * Files:   grpc_call.c has lifetime and headers, grpc_request.c the request, grpc_reply.c the
 *          reply. Only these files and h2_conn.c access the fields.
 * Bounds:  call.unread bytes of output plus one message; one incomplete request message. */
#pragma once

#include "base/buf.h"
#include "transport/conn.h"
#include "wire/grpc.h"
#include "wire/h2.h"

#define GRPC_ARENA_BYTES ((size_t)4096)
#define GRPC_WINDOW_BYTES (1u << 20)      /* receive window of one stream */
#define GRPC_KEEP_BYTES ((size_t)1 << 20) /* a larger buffer is freed when it is empty */

struct h2_conn {
    struct conn *conn;
    struct h2 *h2;
    struct list calls;
    struct list writable; /* calls whose handler may send again */
    /* the call whose headers are incomplete, or NULL; HTTP/2 allows no other frame until they are
     * complete */
    struct grpc_call *heading;
    size_t unfinished_bytes; /* received bytes of incomplete messages */
    size_t unread_bytes;     /* reply bytes that the peer has not read */
    uint64_t idle_since_us;
    uint64_t pinged_us; /* when we sent a PING; 0: none pending */
};

struct grpc_call {
    struct h2_stream stream;
    struct call call;
    struct h2_conn *conn;
    struct list in_conn;
    struct list in_writable;
    struct deadline deadline;
    struct grpc_reader reader;
    struct grpc_frame request; /* a single request, kept encoded until the body ends */
    struct arena message;      /* holds one message of a streamed request; reset after each */
    struct arena answer;       /* holds status and trailers after the call's arena is reset */
    struct buf out;
    struct buf backlog;      /* body that arrived while the handler held the call */
    size_t unfinished_bytes; /* this call's part of h2_conn.unfinished_bytes */
    struct str method;
    bool body_ended;
    bool half_closed; /* the handler was notified that the body ended */
    bool body_gzip;
    bool reply_gzip;
    /* grpc_request_read is running, so grpc_request_release must not start it again */
    bool reading;
    bool full; /* call_send returned FULL */
};

static inline struct grpc_call *grpc_of_stream(struct h2_stream *s) {
    return container_of(s, struct grpc_call, stream);
}
static inline struct grpc_call *grpc_of_call(struct call *c) {
    return container_of(c, struct grpc_call, call);
}
static inline struct server *grpc_server(const struct grpc_call *g) {
    return g->conn->conn->server;
}

static inline size_t grpc_limit(const struct grpc_call *g, enum limit_id id) {
    return server_limit(grpc_server(g), id);
}

static inline int grpc_over_limit(const struct grpc_call *g, struct err *e, enum err_code code,
                                  enum limit_id id, const char *what) {
    size_t value = grpc_limit(g, id);
    return err_limit(e, code, id, (int64_t)value, "%s exceeds %s, %zu", what, limit_table[id].name,
                     value);
}

/* --- grpc_call.c --- */

/* The h2 callbacks of every stream. */
extern const struct h2_events grpc_call_events;
/* Removes the call from its connection. If the call has not finished, its handler gets
 * on_cancel. */
void grpc_call_leave(struct grpc_call *g);
void grpc_call_arm(struct grpc_call *g, bool request_complete);
/* Frees the pooled calls. */
void grpc_call_pool_done(struct server *s);

/* --- grpc_request.c --- */

void grpc_request_body(struct h2_stream *s, const uint8_t *bytes, size_t n);
void grpc_request_end(struct h2_stream *s);
void grpc_request_release(struct call *c);
/* Frees the buffered part of the request and returns its bytes to the client's window. */
void grpc_request_drop(struct grpc_call *g);

/* --- grpc_reply.c --- */

extern const struct call_wire grpc_reply_wire;
size_t grpc_reply_left(struct h2_stream *s);
const uint8_t *grpc_reply_at(struct h2_stream *s);
void grpc_reply_pulled(struct h2_stream *s, size_t n);
/* Discards the queued reply, because the client no longer waits for it. Keeps promised_bytes,
 * because nghttp2 has already fixed the length of their frame. */
void grpc_reply_drop(struct grpc_call *g);
