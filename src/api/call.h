/* call — one request from a client, independent of the transport that carries it.
 *
 * Owner:   the transport's connection.
 * End:     the handler calls call_finish, or gets on_cancel: one of the two, exactly once.
 * A handler sees a call and never a socket; a transport sees a call and never a sandbox. The part
 * for handlers comes first, then the part for transports.
 * Bounds:  the transport holds unread reply bytes up to call_wire's mark. Then call_send returns
 *          FULL, and the handler waits for on_writable. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

struct api;
struct call;

enum method_kind { METHOD_UNARY, METHOD_CLIENT_STREAM, METHOD_SERVER_STREAM, METHOD_BIDI };

/* The authentication that a method requires. */
enum method_scope { SCOPE_ANYONE, SCOPE_USER };

struct handler {
    /* Client stream and bidi: the headers were received. Optional. */
    void (*on_open)(struct call *c);
    /* Unary and server stream: the one request, which lives as long as the call. Client stream and
     * bidi: one of the requests, borrowed for the callback. */
    void (*on_message)(struct call *c, const ProtobufCMessage *m);
    /* Client stream and bidi: the client sends no more requests. */
    void (*on_half_close)(struct call *c);
    /* The client has read replies, so call_send accepts messages again. Optional. */
    void (*on_writable)(struct call *c);
    /* The daemon is stopping: finish a stream that does not end by itself. Optional. */
    void (*on_drain)(struct call *c);
    /* The call is over, for example because the client is gone or the deadline has passed. Release
     * what c->state holds. Optional. */
    void (*on_cancel)(struct call *c);
};

struct method {
    struct str path; /* "/berm.v1.SystemService/Ping" */
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    enum method_kind kind;
    enum method_scope scope;
    const struct handler *handler; /* NULL: not implemented, so the daemon replies UNIMPLEMENTED */
};

struct call_header {
    struct call_header *next;
    struct str name; /* lower case */
    struct str value;
};

/* A google.protobuf.Any for the details of a status. */
struct call_detail {
    struct str type_url;
    const uint8_t *bytes;
    size_t n;
};

struct call_status {
    enum grpc_code code;
    struct str message;
    const struct err *err; /* sent as ErrorInfo and BadRequest; NULL: none */
    const struct call_detail *details;
    size_t n_details;
};

/* The client side of a connection; the transport fills it. */
struct call_peer {
    bool is_unix;
    uid_t uid; /* uid of a Unix peer, from the kernel */
    pid_t pid;
    char text[64]; /* for logs: "uid:1000" or "127.0.0.1:4711" */
};

enum call_push { CALL_OK, CALL_FULL, CALL_GONE };

/* --- for handlers --- */

/* Sends the response's headers now rather than with the first message. */
void call_send_headers(struct call *c);
/* Sends a message. OK and FULL: the message is queued; after FULL, wait for on_writable. GONE: the
 * call is over. */
enum call_push call_send(struct call *c, const ProtobufCMessage *m);
/* Returns a buffer for a message of up to n bytes that the handler packs itself, which saves a copy
 * of large messages. Use no other function of the call before call_send_reserved. NULL: use
 * call_send. */
MUST_USE uint8_t *call_reserve(struct call *c, size_t n);
/* Like call_send, for the first n bytes of the buffer that call_reserve returned. */
enum call_push call_send_reserved(struct call *c, size_t n);
/* Ends the call with the error `e`, or with success if `e` is NULL. Do not use the call, its
 * request or its arena afterwards. */
void call_finish(struct call *c, const struct err *e);
void call_finish_status(struct call *c, const struct call_status *status);
/* Sends the one response of a unary or client-stream method and finishes with success. */
void call_reply(struct call *c, const ProtobufCMessage *m);
/* Stops on_message until call_release. Flow control slows the client down. */
void call_hold(struct call *c);
void call_release(struct call *c);
/* Names the object of the call ("exec_id" and its id) for the metadata of DEADLINE_EXCEEDED. The id
 * must live as long as the call. */
void call_set_subject(struct call *c, const char *key, const char *id);

/* Sets c->state to n zeroed bytes of the call's arena. NULL: out of memory, and the call is
 * finished. */
void *call_new_state(struct call *c, size_t n);
/* Returns an allocator for unpacking messages that live as long as the call. */
ProtobufCAllocator call_allocator(struct call *c);

/* Returns the first value of a request header, or an empty slice with p == NULL. */
struct str call_header(const struct call *c, struct str name);
/* Returns the bytes of a header whose name ends in -bin, in the call's arena. p == NULL: absent, or
 * not base64. */
struct str call_header_bin(struct call *c, struct str name);
/* Adds a header or trailer to the response, as it is sent on the wire. Add headers before the first
 * call_send. Fails with -ENOMEM. */
MUST_USE int call_add_header(struct call *c, struct str name, struct str value);
MUST_USE int call_add_trailer(struct call *c, struct str name, struct str value);

/* --- for transports --- */

struct call_wire {
    void (*send_headers)(struct call *c);
    enum call_push (*send)(struct call *c, const ProtobufCMessage *m);
    void (*finish)(struct call *c, const struct call_status *status);
    void (*release)(struct call *c);               /* the handler has called call_release */
    uint8_t *(*reserve)(struct call *c, size_t n); /* optional */
    enum call_push (*send_reserved)(struct call *c, size_t n);
};

struct call {
    struct api *api;
    const struct method *method; /* NULL until call_begin has found it */
    const struct call_wire *wire;
    const struct call_peer *peer;
    struct arena arena;
    struct str path;
    struct str authority;
    struct call_header *headers; /* newest first */
    struct call_header *reply_headers;
    struct call_header *reply_trailers;
    uint64_t began_us;
    uint64_t deadline_us; /* as returned by clock_us(); 0 = none */
    uint64_t bytes_in;
    uint64_t bytes_out;
    const ProtobufCMessage *request; /* unary and server stream: kept until the body ends */
    const char *subject;             /* set by call_set_subject; NULL: none */
    const char *subject_id;
    void *state; /* owned by the handler */
    bool opened; /* the handler has been called */
    bool held;
    bool finished; /* call_finish or call_cancel has ended the call */
};

/* Each of the next four functions may finish the call. Before call_begin, the transport fills path,
 * authority, headers and deadline. */
void call_begin(struct call *c);
void call_message(struct call *c, const ProtobufCMessage *m);
void call_half_close(struct call *c);
void call_drain(struct call *c);
void call_writable(struct call *c); /* the client has read; call_send accepts messages again */
/* The transport has refused a request that is not gRPC, and has replied to it. */
void call_refused(struct call *c, const char *why);
/* The transport has found an error, such as a malformed message or one that is too large. */
void call_fail(struct call *c, const struct err *e);
/* A call with one request got none, or a second one. */
void call_wrong_count(struct call *c, const char *how);
/* Ends the call, because the client is gone or the deadline has passed. ERR_DEADLINE_EXCEEDED is
 * also sent as the status. */
void call_cancel(struct call *c, enum err_code why);
/* Returns true for methods with exactly one request, which lives as long as the call. */
static inline bool call_has_one_request(const struct call *c) {
    return c->method->kind == METHOD_UNARY || c->method->kind == METHOD_SERVER_STREAM;
}
