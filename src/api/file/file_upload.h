/* file_upload — a file or a tree that a client sends: a header, then bytes, then its half-close.
 *
 * It is a mutation (api/mutation.h) whose request is the header.
 * Owner:   its call (c->state); after the half-close, the change itself.
 * States:  NEW → OPENING (the guest prepares) → OPEN (bytes are moved) → FINISHING (the guest puts
 *          the file in place) → RECORDING → reply.
 * Bounds:  one message. Outside OPEN the call is held, so the client's window holds the rest.
 * If the call ends before FINISHING, the upload is given up, and the guest drops what it received.
 * If the call ends later, the upload continues and is recorded; a repeat of its request id
 * waits. */
#pragma once

#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/mutation.h"

struct upload;

struct upload_kind {
    enum guest_file_method method;
    int operation; /* FileOperation */
    size_t size;   /* size of the kind's struct, which begins with struct upload */
    int (*check)(struct upload *u, struct err *e);
    /* Sets the fields of the guest request besides the path. Optional. */
    void (*put)(struct upload *u, struct guest_file_request *r);
    /* Called when the guest is ready to receive bytes. */
    int (*opened)(struct upload *u, const struct guest_answer *a, struct err *e);
    /* Moves the bytes in u->in. Returns 1 when all were moved, 0 when the kind calls upload_go_on
     * later, or an error. */
    int (*move)(struct upload *u, struct err *e);
    /* Called for further answers and notices of the guest while OPEN or FINISHING. */
    void (*on_answer)(struct upload *u, const struct guest_answer *a);
    void (*on_notice)(struct upload *u, const struct guest_tree_done *done);
    /* Called when all bytes were moved and the client has half-closed. Calls upload_done, now or
     * later. */
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
    struct file_audit audit; /* audit.bytes_moved counts the moved bytes */
    const ProtobufCMessageDescriptor *answers;
    ProtobufCMessage *response; /* zeroed before FINISHING */
    const uint8_t *in;          /* bytes to move: in the message, or in `kept` */
    size_t n_in;
    size_t at_in;  /* bytes of `in` that were moved */
    uint8_t *kept; /* the rest of a message that could not be moved at once; from malloc */
    size_t kept_capacity;
};

void upload_message(struct call *c, const ProtobufCMessage *m, const struct upload_kind *kind);
void upload_half_close(struct call *c);

/* For the functions of a kind. Call these last, because each may end the upload. */
void upload_go_on(struct upload *u);
void upload_done(struct upload *u); /* call this when u->response is filled */
void upload_fail(struct upload *u, const struct err *e);
