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
    /* the key under which errors name the object: "sandbox_id" or "exec_id" */
    const char *subject_key;
    int (*first)(struct mutation *mu, struct err *e);
    int (*repeat)(struct mutation *mu, struct err *e);
    void (*on_durable)(struct mutation *mu);
    /* Optional. Reports the failure instead of call_finish, before the mutation ends. */
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
    struct call *call; /* NULL: the call was cancelled or finished, and the change continues */
    const struct mutation_kind *kind;
    const ProtobufCMessage *m; /* the request; valid while there is a call */
    struct caller caller;
    /* for `repeat`: id of the stored object; NUL-terminated, in the call's arena */
    struct str object_id;
    struct str answer;
    char subject_id[64]; /* id of the object that errors name; empty while unknown */
    struct ledger_wait durable;
    struct ledger *ledger;

    /* Only mutation.c uses the members below. */
    struct mutations *all;
    struct deadlines *deadlines;
    struct list in_undecided;
    /* In an undecided mutation, the list of its repeats; in a repeat, its node in that list. */
    struct list waiting;
    struct request_key key;
    char request_id[MUTATION_REQUEST_ID_MAX + 1];
    bool is_kept;
};

void mutations_init(struct mutations *all);

/* Allocates the handler's object of `size` bytes. Its first member is the mutation; the rest is
 * zeroed. The handler sets c->state to the object, unless the call has another state. If it returns
 * NULL, the call is finished with an error. */
MUST_USE struct mutation *mutation_new(struct call *c, const ProtobufCMessage *m,
                                       const struct mutation_kind *kind, size_t size);
/* Starts with the lookup of the request id. Two requests are equal if they differ only in wait_ms
 * and request_id. */
void mutation_begin(struct mutation *mu);
bool mutation_has_request_id(const struct mutation *mu);

/* Returns a change to pass to core's functions. They put the request id into the ledger entry, and
 * mu->durable waits for that entry. */
struct change mutation_change(struct mutation *mu);
/* From now on the change continues even without the call. */
void mutation_keep(struct mutation *mu);
/* Records the request id in an entry of its own; on_durable follows. Fails with STORE_FAILED. */
MUST_USE int mutation_record(struct mutation *mu, const char *object_id, struct str answer,
                             struct err *e);

/* Each of the next three functions ends the mutation, with or without a call. */
void mutation_reply(struct mutation *mu, const ProtobufCMessage *response);
void mutation_fail(struct mutation *mu, const struct err *e);
void mutation_end(struct mutation *mu);
/* Ends the call with `e`; the change continues. */
void mutation_detach(struct mutation *mu, const struct err *e);
/* Ends the mutation of a call that is over, unless the change is kept. */
void mutation_abandon(struct mutation *mu);
/* An on_cancel for handlers whose c->state is the mutation. */
void mutation_cancel(struct call *c);
