/* file_op — one file call with one answer, from its request id to its answer.
 *
 * Owner:   its call (c->state); once the guest was asked for a change, the change.
 * States:  ASKING (a repeat waits for the first call) → INTENDING (the request id becomes durable) →
 *          WORKING (the guest is at it) → RECORDING (the event becomes durable) → answered. A read records
 *          without waiting. A refusal of what was intended is WITHDRAWING before it is told.
 * A change whose call ends while the guest is at it goes on: it is recorded when it is done, and until then
 * a repeat of its request id waits. */
#pragma once

#include "api/file/file_answer.h"
#include "api/file/file_target.h"

struct file_op;

/* What a repeat does when the daemon or the link went between the act and its record, so that nobody knows
 * whether there was one. */
enum file_loss {
    FILE_LOSS_AGAIN, /* it acts: twice is as good as once, and no intent need be remembered */
    FILE_LOSS_LOOK,  /* it acts with op->is_again, and takes what it finds done as done */
    FILE_LOSS_SAY,   /* it fails with GUEST_LOST: the caller has to look */
};

struct file_kind {
    enum guest_file_method method;
    int operation; /* FileOperation of its event; 0 = it leaves none */
    bool is_change;
    enum file_loss loss;
    bool or_workspace; /* the path may be left out */
    /* What there is to check besides the target. Optional. */
    int (*check)(struct file_op *op, struct err *e);
    /* Sets what the guest needs besides the path, in op->ask. Optional. */
    void (*put)(struct file_op *op);
    /* op->is_again, and the guest refused: true when something else was asked of it. Optional. */
    bool (*look)(struct file_op *op, const struct err *e);
    /* Fills op->response. */
    int (*read)(struct file_op *op, const struct guest_file_answer *a, struct err *e);
};

enum file_step { FILE_ASKING, FILE_INTENDING, FILE_WORKING, FILE_WITHDRAWING, FILE_RECORDING };

struct file_op {
    struct call *call; /* NULL: it is over, and the change is not */
    const struct file_kind *kind;
    const ProtobufCMessage *m; /* lives as long as the call */
    enum file_step step;
    struct arena arena; /* for what outlives the call */
    struct file_target target;
    struct path_arg new_path; /* of a rename */
    struct guest_file_request ask;
    struct file_call *file;
    struct request request;
    struct ledger_wait durable;
    bool is_intended;   /* the request id is durable, and nothing that came of it */
    bool is_again;      /* it may have been done before */
    struct err failure; /* what is told after WITHDRAWING */
    struct file_audit audit;
    const ProtobufCMessageDescriptor *answers;
    ProtobufCMessage *response; /* in the arena, zeroed before `read` */
    char sandbox_id[64];
};

void file_op_begin(struct call *c, const ProtobufCMessage *m, const struct file_kind *kind);
void file_op_cancel(struct call *c);
