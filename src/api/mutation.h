/* mutation — one call that changes something, under its request id. It acts once, however often the
 * client sends it.
 *
 * Owner:   its call, until the change begins; then the change itself, until it is decided.
 * Life:    1. mutation_begin looks up the request id:
 *             - the first call: kind->first;
 *             - a repeat of an accepted call: kind->repeat, with the stored object and answer;
 *             - a repeat of a call whose change is undecided: it waits until the change is decided,
 *               and then looks up again;
 *             - the same id with another request: REQUEST_ID_REUSED.
 *          2. kind->first checks the request and begins the change. It puts the request id into the
 *             ledger entry of the change (mutation_change). If a second change does no harm, it
 *             may record the request id afterwards instead (mutation_record). It calls
 *             mutation_keep when the change can no longer be reverted.
 *          3. The entry becomes durable or fails. Now the change is decided, and repeats look up
 *             again. If the call is still open, kind->on_durable follows.
 *          4. The handler waits for the outcome, if the call requests that, and ends with
 *             mutation_reply or mutation_fail.
 * Cancel:  a call that is cancelled between 2 and 3 leaves the mutation behind, because a repeat
 *          would act again if the id were free before the store has it. At any other time the
 *          mutation ends with its call.
 * Ids:     a call without a request id is always a first call, and its id is not stored. A call
 *          that only reads uses mutation_new without mutation_begin.
 * Errors:  INVALID_ARGUMENT, REQUEST_ID_REUSED, LIMIT_REACHED.   Spec: spec/behavior.md, IDEMP
 * Inside a callback you may call every function here. `first` and `repeat` that return 0 may have
 * ended the mutation. */
#pragma once

#include "api/call.h"
#include "base/list.h"
#include "core/change.h"
#include "loop/deadline.h"

#define MUTATION_REQUEST_ID_MAX 128

struct mutation;

struct mutation_kind {
    const char *subject_key; /* of errors: "sandbox_id" or "exec_id" */
    int (*first)(struct mutation *mu, struct err *e);
    int (*repeat)(struct mutation *mu, struct err *e);
    void (*on_durable)(struct mutation *mu);
    /* Optional. Instead of call_finish: reports the failure. The mutation is still there. */
    void (*on_failed)(struct mutation *mu, const struct err *e);
    /* Optional. Cancels the handler's own waits and frees what its object holds. */
    void (*release)(struct mutation *mu);
};

/* Every mutation that holds a request id or waits for one; one per daemon. */
struct mutations {
    struct list undecided;
    struct list again; /* mutations that repeat the lookup in the next loop turn */
    struct deadline wake;
};

struct mutation {
    struct call *call; /* NULL: cancelled or finished; the change continues */
    const struct mutation_kind *kind;
    const ProtobufCMessage *m; /* the request; valid while there is a call */
    struct caller caller;
    struct str object_id; /* for `repeat`; NUL-terminated, in the call's arena */
    struct str answer;
    char subject_id[64]; /* errors name it; empty while unknown */
    struct ledger_wait durable;
    struct ledger *ledger;

    /* Of mutation.c alone. */
    struct mutations *all;
    struct deadlines *deadlines;
    struct list in_undecided;
    /* The repeats of an undecided mutation; in a repeat, its node in that list. */
    struct list waiting;
    struct request_key key;
    char request_id[MUTATION_REQUEST_ID_MAX + 1];
    bool is_kept;
};

void mutations_init(struct mutations *all);

/* The handler's object of `size` bytes, whose first member is the mutation; the rest is zeroed. The
 * handler sets c->state to it, if nothing else is the call's state. NULL: the call is finished with
 * an error. */
MUST_USE struct mutation *mutation_new(struct call *c, const ProtobufCMessage *m,
                                       const struct mutation_kind *kind, size_t size);
/* Starts at step 1. Requests are equal if `m` is equal except for wait_ms and request_id. */
void mutation_begin(struct mutation *mu);
bool mutation_has_request_id(const struct mutation *mu);

/* For core's functions: they put the request id into the entry, and mu->durable waits for it. */
struct change mutation_change(struct mutation *mu);
/* From now on the change continues even without the call. */
void mutation_keep(struct mutation *mu);
/* Records the request id in an entry of its own; on_durable follows. STORE_FAILED. */
MUST_USE int mutation_record(struct mutation *mu, const char *object_id, struct str answer,
                             struct err *e);

/* Each of these ends the mutation, with or without a call. */
void mutation_reply(struct mutation *mu, const ProtobufCMessage *response);
void mutation_fail(struct mutation *mu, const struct err *e);
void mutation_end(struct mutation *mu);
/* Ends the call with `e`; the change continues. */
void mutation_detach(struct mutation *mu, const struct err *e);
/* The call is over: ends the mutation, unless its change is kept. */
void mutation_abandon(struct mutation *mu);
/* An on_cancel for handlers whose c->state is the mutation. */
void mutation_cancel(struct call *c);
