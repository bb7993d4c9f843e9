/* sandbox_op — one call about one sandbox, from its request id to its answer.
 *
 * Owner:   its call (c->state); while a change is on its way, the change.
 * States:  ASKING (a repeat waits for the first call) → CHANGING (the change becomes durable) → WAITING
 *          (wait_ms) → SHOWING (what is shown becomes durable) → answered. A read begins with SHOWING.
 * A call that is cancelled while CHANGING leaves the op behind until the change is decided: the change
 * goes on, and its request id must not be free before it is on disk. */
#pragma once

#include "api/context.h"
#include "api/sandbox/sandbox_spec_check.h"
#include "base/failpoint.h"
#include "core/imports/imports.h"
#include "core/sandbox/sandbox.h"

struct op;

struct op_kind {
    enum failpoint_id reply; /* passed right before the answer of a change */
    /* Optional, before act: 0, or 1 when op_open is at work. */
    int (*prepare)(struct op *op, struct err *e);
    /* Makes the change and names the sandbox in op->id, if that is empty. NULL: a read. */
    int (*act)(struct op *op, const struct change *change, struct err *e);
    bool until_deleted;   /* what wait_ms waits for */
    bool deleted_is_done; /* a sandbox that is deleted already is an answer, not an error */
};

enum op_step { OP_ASKING, OP_OPENING, OP_CHANGING, OP_WAITING, OP_SHOWING };

struct op {
    struct call *call; /* NULL: it was cancelled while CHANGING */
    const struct op_kind *kind;
    const ProtobufCMessage *m;
    enum op_step step;
    struct request request;
    struct ledger_wait ledger_wait;
    struct sandbox_wait sandbox_wait;
    struct imports imports;      /* OPENING: the host's paths are looked at */
    Berm__V1__SandboxSpec *spec; /* of a create, checked; in the call's arena */
    int64_t wait_ms;
    char id[64];
};

/* `id` is the sandbox the call is about, empty when it makes one with a generated id. */
void op_begin(struct call *c, const ProtobufCMessage *m, const struct op_kind *kind, const char *id,
              int64_t wait_ms);
void op_cancel(struct call *c);

/* For op_kind.act: a sandbox that is deleted is SANDBOX_DELETED while that is known. */
MUST_USE int op_find(struct op *op, struct sandbox **ret_sb, struct err *e);
/* For op_kind.prepare: looks at what of the host this spec brings in; as imports_begin. */
MUST_USE int op_open(struct op *op, const char *owner, const Berm__V1__SandboxSpec *spec,
                     bool with_copies, struct err *e);
/* `driver` is the name that is asked for, or the sandbox's own. */
void op_rules(const struct op *op, const char *driver, struct spec_rules *ret_rules);
