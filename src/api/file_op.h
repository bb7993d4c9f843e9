/* file_op — one file call with one answer, from its request id to its answer.
 *
 * Owner:   its call (c->state); once the guest was asked for a change, the change.
 * States:  ASKING (a repeat waits for the first call) → WORKING (the guest is at it) → RECORDING (the
 *          event becomes durable) → answered. A read records without waiting.
 * A change whose call ends while the guest is at it goes on: it is recorded when it is done, and until then
 * a repeat of its request id waits. */
#pragma once

#include "api/file_answer.h"
#include "api/file_target.h"

struct file_op;

struct file_kind {
    const char *method; /* of the guest */
    int operation;      /* FileOperation of its event; 0 = it leaves none */
    bool is_change;
    bool or_workspace; /* the path may be left out */
    /* What there is to check besides the target. Optional. */
    int (*check)(struct file_op *op, struct err *e);
    /* Puts what the guest needs besides the path. Optional. */
    void (*put)(struct file_op *op, struct json_out *o);
    /* Fills op->response. */
    int (*read)(struct file_op *op, const struct json *result, struct err *e);
};

enum file_step { FILE_ASKING, FILE_WORKING, FILE_RECORDING };

struct file_op {
    struct call *call; /* NULL: it is over, and the change is not */
    const struct file_kind *kind;
    const ProtobufCMessage *m; /* lives as long as the call */
    enum file_step step;
    struct arena arena; /* for what outlives the call */
    struct file_target target;
    struct path_arg new_path; /* of a rename */
    struct file_call *file;
    struct request request;
    struct ledger_wait durable;
    struct file_audit audit;
    const ProtobufCMessageDescriptor *answers;
    ProtobufCMessage *response; /* in the arena, zeroed before `read` */
    char sandbox_id[64];
};

void file_op_begin(struct call *c, const ProtobufCMessage *m, const struct file_kind *kind);
void file_op_cancel(struct call *c);
