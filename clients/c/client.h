/* client — what the calls share: the connection for new calls, deadlines, retries, streams that resume. */
#pragma once

#include <berm.h>

#include "clients/c/conn.h"

enum method_kind { METHOD_UNARY, METHOD_STREAM };

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

/* A stream that may outlive its connection. */
struct stream {
    const struct berm_method *method;
    const ProtobufCMessage *request; /* as it is when the stream is asked for anew */
    enum stream_next (*on_message)(struct stream *s, const ProtobufCMessage *m);
    bool resumes;
    uint64_t given; /* messages the user got; the attempts that got none are counted */
};

/* 0 at the end or when on_message stopped it; -code. */
int client_stream(struct berm_client *c, struct stream *s, struct berm_error *e);

/* n letters and digits from a cryptographic source, and a NUL. */
void client_random_id(char *out, size_t n);
