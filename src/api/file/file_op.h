/* file_op — one file call with one reply.
 *
 * A change is a mutation (api/mutation.h); a read has neither request id nor intent.
 * Owner:   its call (c->state); once the guest was asked for a change, the change itself.
 * States:  INTENDING (the request id becomes durable) → WORKING (the guest acts) → RECORDING (the
 *          event becomes durable) → reply. A read records without waiting. If the guest refuses,
 *          the op withdraws the intent (WITHDRAWING) before it replies.
 * If the call ends while the guest acts, the change continues and is recorded; a repeat of its
 * request id waits. */
#pragma once

#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/mutation.h"

struct file_op;

/* What a repeated call does when the daemon stopped or the link broke before the outcome of the
 * first call was recorded. It is then unknown whether the guest acted. */
enum file_loss {
    FILE_LOSS_AGAIN, /* acts again: that does no harm, so no intent is recorded */
    /* acts with op->is_again set, which accepts that the first call may have acted */
    FILE_LOSS_LOOK,
    FILE_LOSS_SAY, /* fails with GUEST_LOST, so that the caller checks the state */
};

struct file_kind {
    enum guest_file_method method;
    int operation; /* FileOperation of the event to record; 0 = no event */
    bool is_change;
    enum file_loss loss;
    bool or_workspace; /* the path may be left out */
    /* Checks the fields other than sandbox, path and user. Optional. */
    int (*check)(struct file_op *op, struct err *e);
    /* Sets the fields of op->ask that the guest needs besides path and user. Optional. */
    void (*put)(struct file_op *op);
    /* Called when the guest refused a request with op->is_again. Returns true if it sent another
     * request. Optional. */
    bool (*look)(struct file_op *op, const struct err *e);
    /* Fills op->response from the guest's answer. */
    int (*read)(struct file_op *op, const struct guest_file_answer *a, struct err *e);
};

enum file_step { FILE_NEW, FILE_INTENDING, FILE_WORKING, FILE_WITHDRAWING, FILE_RECORDING };

struct file_op {
    struct mutation mu;
    const struct file_kind *kind;
    enum file_step step;
    struct arena arena; /* for data that outlives the call */
    struct file_target target;
    struct path_arg new_path; /* only for a rename */
    struct guest_file_request ask;
    struct file_call *file;
    struct ledger_wait intent;
    bool is_intended;   /* the intent is durable, but its outcome is not */
    bool is_again;      /* this call repeats a lost call, which may have acted */
    struct err failure; /* the error to report after WITHDRAWING */
    struct file_audit audit;
    const ProtobufCMessageDescriptor *answers;
    ProtobufCMessage *response; /* in the arena, zeroed before `read` */
};

void file_op_begin(struct call *c, const ProtobufCMessage *m, const struct file_kind *kind);
