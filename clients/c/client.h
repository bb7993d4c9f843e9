/* client — shared by all calls: the connection, deadlines, retries, streams that resume. */
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
    STREAM_STOP,  /* the end, or the user stopped */
};

enum send_next {
    SEND_MORE,
    /* `packed` is the message with its prefix; it must stay unchanged until on_send is called
     * again */
    SEND_PACKED,
    SEND_WAIT, /* wait for a response or the waker */
    SEND_END,
    SEND_FAIL, /* nothing can be sent; the stream ends */
};

/* A stream that may survive its connection. */
struct stream {
    const struct berm_method *method;
    const ProtobufCMessage *request; /* the request for the next attempt */
    enum stream_next (*on_message)(struct stream *s, const ProtobufCMessage *m);
    /* Called with a message before it is unpacked. Returns true if it handled the message;
     * *ret_next is then the result of on_message. May be NULL. */
    bool (*on_packed)(struct stream *s, const uint8_t *bytes, size_t n, enum stream_next *ret_next);
    /* Called when an attempt starts: what earlier attempts sent no longer counts. May be NULL. */
    void (*on_begin)(struct stream *s);
    /* Provides the next request, borrowed until the next call. NULL: there is only the first. */
    enum send_next (*on_send)(struct stream *s, const ProtobufCMessage **ret_message);
    struct loan packed;
    /* The packed message is being sent, so the next can be prepared. */
    void (*on_sent)(struct stream *s);
    bool resumes;
    bool is_quiet;       /* the daemon sends no heartbeats on this stream */
    bool has_request_id; /* the operation can be repeated */
    uint64_t given;      /* messages delivered to the user; counts attempts without any */
};

/* Returns 0 at the end or when on_message stopped the stream, or -code. */
int client_stream(struct berm_client *c, struct stream *s, struct berm_error *e);

/* Returns a copy to release with berm_free, or NULL when out of memory. */
void *client_copy(const ProtobufCMessage *m);
/* Writes n random letters and digits from a cryptographic source, and a NUL. */
void client_random_id(char *out, size_t n);

/* --- the position of a reader of output --- */

struct output_place {
    uint64_t next[2]; /* stdout, stderr: the first byte that the user does not have */
    bool floats[2];   /* reads a tail, whose first chunk has the start offset */
};

/* Sets the position to the tail of the stored output. */
void output_place_tail(struct output_place *p, const Berm__V1__Exec *exec, uint64_t tail_bytes);
/* Removes what the user already has, and advances. Returns 1 if something is left, 0 if not, and
 * -EPROTO when bytes are missing. */
MUST_USE int output_place_chunk(struct output_place *p, Berm__V1__OutputChunk *chunk);
MUST_USE int output_place_gap(struct output_place *p, Berm__V1__OutputGap *gap);
