/* client — what all calls share: the connection, deadlines, retries, streams that resume. */
#pragma once

#include <berm.h>

#include "clients/c/conn.h"

enum method_kind {
    METHOD_UNARY,
    METHOD_STREAM,   /* a stream of responses */
    METHOD_UPLOAD,   /* a stream of requests, one response */
    METHOD_INTERACT, /* streams in both directions */
};

struct berm_method {
    const char *path;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    enum method_kind kind;
};

enum stream_next {
    STREAM_MORE,
    STREAM_AGAIN, /* send the request again, from the last position */
    STREAM_STOP,  /* the stream has ended, or the user's callback stopped it */
};

enum send_next {
    SEND_MORE,
    /* `packed` is the message with its prefix; it must stay unchanged until on_send is called
     * again */
    SEND_PACKED,
    SEND_WAIT, /* nothing to send until a response arrives or the waker fires */
    SEND_END,
    SEND_FAIL, /* the source of the requests failed; the stream ends */
};

/* A stream that may survive its connection. */
struct stream {
    const struct berm_method *method;
    const ProtobufCMessage *request; /* the request for the next attempt */
    enum stream_next (*on_message)(struct stream *s, const ProtobufCMessage *m);
    /* Called with a message before it is unpacked. Returns true if it handled the message; then
     * on_message is not called, and *ret_next takes the place of its result. May be NULL. */
    bool (*on_packed)(struct stream *s, const uint8_t *bytes, size_t n, enum stream_next *ret_next);
    /* Called when an attempt starts, to forget what earlier attempts sent. May be NULL. */
    void (*on_begin)(struct stream *s);
    /* Provides the next request, which stays valid until the next on_send. NULL: the method takes
     * one request. */
    enum send_next (*on_send)(struct stream *s, const ProtobufCMessage **ret_message);
    struct loan packed;
    /* Called after SEND_PACKED, when sending has started: prepares the next message. */
    void (*on_sent)(struct stream *s);
    bool resumes;
    bool is_quiet;       /* the daemon sends no heartbeats on this stream */
    bool has_request_id; /* a repeat is safe, because the daemon recognizes the request id */
    uint64_t given; /* messages delivered to the user; growth shows that an attempt made progress */
};

/* Returns 0 at the end or when on_message stopped the stream, or -code. */
int client_stream(struct berm_client *c, struct stream *s, struct berm_error *e);

/* Returns a copy of the message, or NULL when out of memory. Release it with berm_free. */
void *client_copy(const ProtobufCMessage *m);
/* Writes n random letters and digits from a cryptographic source, and a NUL. */
void client_random_id(char *out, size_t n);

/* --- the position of a reader of output --- */

struct output_place {
    uint64_t next[2]; /* stdout, stderr: offset of the first byte that the user does not have */
    bool floats[2];   /* `next` is a lower bound: the first chunk of a tail has the exact offset */
};

/* Sets the position to the tail of the stored output. */
void output_place_tail(struct output_place *p, const Berm__V1__Exec *exec, uint64_t tail_bytes);
/* Removes bytes from the chunk that the user already has, and advances the position. Returns 1 if
 * bytes are left, 0 if not, and -EPROTO when bytes before the chunk are missing. */
MUST_USE int output_place_chunk(struct output_place *p, Berm__V1__OutputChunk *chunk);
MUST_USE int output_place_gap(struct output_place *p, Berm__V1__OutputGap *gap);
