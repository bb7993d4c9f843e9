/* grpc_call — one gRPC call on an HTTP/2 stream: what the call object is to handlers, this is to the wire.
 *
 * Owner:   its h2_conn.                 Ends: the stream's on_close, or the connection's end.
 * Three files: grpc_call.c has its life and headers, grpc_request.c what the client sends,
 * grpc_reply.c what it gets. Only they and h2_conn.c see the inside.
 * Bounds:  call.unread of output and one message; one request message being put together. */
#pragma once

#include "base/buf.h"
#include "transport/conn.h"
#include "wire/grpc.h"
#include "wire/h2.h"

#define GRPC_ARENA_BYTES ((size_t)4096)
#define GRPC_WINDOW_BYTES (1u << 20)      /* of one stream's body */
#define GRPC_KEEP_BYTES ((size_t)1 << 20) /* an empty buffer larger than this is let go */

struct h2_conn {
    struct conn *conn;
    struct h2 *h2;
    struct list calls;
    struct list writable;      /* calls whose handler may send again */
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
    struct list in_writable;
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

/* What h2 tells, for every stream of a connection. */
extern const struct h2_events grpc_call_events;
/* Takes the call out of its connection; the handler hears if it has not ended it. */
void grpc_call_leave(struct grpc_call *g);
void grpc_call_arm(struct grpc_call *g, bool request_complete);
/* Frees the calls kept for the next request. */
void grpc_call_pool_done(struct server *s);

/* --- grpc_request.c --- */

void grpc_request_body(struct h2_stream *s, const uint8_t *bytes, size_t n);
void grpc_request_end(struct h2_stream *s);
void grpc_request_release(struct call *c);
/* What the client still sends is of no use: gives its window back and lets the memory go. */
void grpc_request_drop(struct grpc_call *g);

/* --- grpc_reply.c --- */

extern const struct call_wire grpc_reply_wire;
size_t grpc_reply_left(struct h2_stream *s);
const uint8_t *grpc_reply_at(struct h2_stream *s);
void grpc_reply_pulled(struct h2_stream *s, size_t n);
/* Nobody waits for the answer any more. A frame that is already announced keeps its bytes. */
void grpc_reply_drop(struct grpc_call *g);
