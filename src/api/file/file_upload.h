/* file_upload — a file or a tree that a client sends: a header, then bytes, then its half-close.
 *
 * It is a mutation (api/mutation.h) whose request is the header.
 * Owner:   its call (c->state); after the half-close the change.
 * States:  NEW → OPENING (the guest prepares) → OPEN (bytes are moved) → FINISHING (the guest puts
 *          the file in place) → RECORDING → reply.
 * Bounds:  one message. Outside OPEN the call is held, so the client's window holds the rest.
 * An upload that ends before FINISHING is given up, and the guest drops what it has. Later it goes
 * on without the call and is recorded; a repeat of its request id waits. */
#pragma once

#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/mutation.h"

struct upload;

struct upload_kind {
    enum guest_file_method method;
    int operation; /* FileOperation */
    size_t size;   /* of the struct that begins with struct upload */
    int (*check)(struct upload *u, struct err *e);
    /* Sets what the guest needs besides the path. Optional. */
    void (*put)(struct upload *u, struct guest_file_request *r);
    /* The guest is ready. */
    int (*opened)(struct upload *u, const struct guest_answer *a, struct err *e);
    /* Moves the bytes in u->in. Returns 1 when all were moved, 0 when upload_go_on follows, or a
     * failure. */
    int (*move)(struct upload *u, struct err *e);
    /* Further answers and notices while OPEN or FINISHING. */
    void (*on_answer)(struct upload *u, const struct guest_answer *a);
    void (*on_notice)(struct upload *u, const struct guest_tree_done *done);
    /* All bytes were moved and the client has ended: upload_done follows. */
    int (*finish)(struct upload *u, struct err *e);
    /* Frees the kind's own data. May be called before `opened`. */
    void (*end)(struct upload *u);
    bool hears_failures; /* on_answer also gets failures */
    bool leaves_parts;   /* files that were written before a failure stay, and are recorded */
};

enum upload_step {
    UPLOAD_NEW,
    UPLOAD_OPENING,
    UPLOAD_OPEN,
    UPLOAD_FINISHING,
    UPLOAD_RECORDING,
};

struct upload {
    struct mutation mu;
    const struct upload_kind *kind;
    const ProtobufCMessage *header; /* a copy, in the call's arena */
    enum upload_step step;
    struct arena arena; /* for data that outlives the call */
    struct file_target target;
    struct file_call *file;
    struct file_audit audit; /* bytes_moved counts */
    const ProtobufCMessageDescriptor *answers;
    ProtobufCMessage *response; /* zeroed before FINISHING */
    const uint8_t *in;          /* bytes to move: in the message, or in `kept` */
    size_t n_in;
    size_t at_in;  /* moved so far */
    uint8_t *kept; /* the rest of a message that could not be moved at once; from malloc */
    size_t kept_capacity;
};

void upload_message(struct call *c, const ProtobufCMessage *m, const struct upload_kind *kind);
void upload_half_close(struct call *c);

/* For the functions of a kind. Call these last, because each may end the upload. */
void upload_go_on(struct upload *u);
void upload_done(struct upload *u); /* u->response is filled */
void upload_fail(struct upload *u, const struct err *e);
