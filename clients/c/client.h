/* client — what the calls share: the connection for new calls, deadlines, retries, streams that resume. */
#pragma once

#include <berm.h>

#include "clients/c/conn.h"

enum method_kind {
    METHOD_UNARY,
    METHOD_STREAM,   /* many answers */
    METHOD_UPLOAD,   /* many requests, one answer */
    METHOD_INTERACT, /* many of both */
};

struct berm_method {
    const char *path;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    enum method_kind kind;
};

enum stream_next {
    STREAM_MORE,
    STREAM_AGAIN, /* ask anew, from what was given last */
    STREAM_STOP,  /* the end, or the user wants no more */
};

enum send_next {
    SEND_MORE,
    SEND_PACKED, /* `packed` is it, prefix and all; it stays as it is until on_send comes again */
    SEND_WAIT,   /* for an answer, or the waker */
    SEND_END,
    SEND_FAIL, /* nothing can be sent; the stream is over */
};

/* A stream that may outlive its connection. */
struct stream {
    const struct berm_method *method;
    const ProtobufCMessage *request; /* as it is when the stream is asked for anew */
    enum stream_next (*on_message)(struct stream *s, const ProtobufCMessage *m);
    /* A message before it is unpacked; true: that is not needed, and *ret_next is what on_message would have
     * answered. May be NULL. */
    bool (*on_packed)(struct stream *s, const uint8_t *bytes, size_t n, enum stream_next *ret_next);
    /* An attempt begins: what was sent before counts no more. May be NULL. */
    void (*on_begin)(struct stream *s);
    /* The next request, borrowed until it is asked for again; NULL: the first is the only one. */
    enum send_next (*on_send)(struct stream *s, const ProtobufCMessage **ret_message);
    struct loan packed;
    /* What was packed is on its way: the time to prepare the next. */
    void (*on_sent)(struct stream *s);
    bool resumes;
    bool is_quiet;       /* the daemon sends no heartbeats here */
    bool has_request_id; /* what may have happened can be asked for again */
    uint64_t given;      /* messages the user got; the attempts that got none are counted */
};

/* 0 at the end or when on_message stopped it; -code. */
int client_stream(struct berm_client *c, struct stream *s, struct berm_error *e);

/* A copy to give to berm_free; NULL when memory is short. */
void *client_copy(const ProtobufCMessage *m);
/* n letters and digits from a cryptographic source, and a NUL. */
void client_random_id(char *out, size_t n);

/* --- where a reader of output stands --- */

struct output_place {
    uint64_t next[2]; /* stdout, stderr: the first byte the user does not have */
    bool floats[2];   /* a tail: its first chunk says where it begins */
};

/* Sets the place to the tail of what is kept. */
void output_place_tail(struct output_place *p, const Berm__V1__Exec *exec, uint64_t tail_bytes);
/* Cuts off what the user has, and moves on: 1 and something is left, 0 and nothing is; -EPROTO when bytes are
 * missing, which are never passed over. */
MUST_USE int output_place_chunk(struct output_place *p, Berm__V1__OutputChunk *chunk);
MUST_USE int output_place_gap(struct output_place *p, Berm__V1__OutputGap *gap);
