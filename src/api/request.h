/* request — a changing call under its request id: it acts once, however often it is asked.
 *
 * Owner:   the call's state that embeds it.
 * NEW:     act, with &r->key in the change; request_settle when it is durable, or has failed. A call that
 *          is cancelled in between keeps `r` until then: settled earlier, a repeat would act again.
 * REPEAT:  it was accepted before; answer from object_id (and `answer`) as they stand now.
 * WAIT:    the same call is under way on another call; on_again comes from the loop when that has
 *          settled, and request_begin is asked again.
 * An empty request id is always NEW and remembers nothing.
 * Errors:  INVALID_ARGUMENT, REQUEST_ID_REUSED.                  Spec: spec/behavior.md, IDEMP */
#pragma once

#include "api/call.h"
#include "base/list.h"
#include "core/caller.h"
#include "core/registry/registry.h"
#include "loop/deadline.h"

#define REQUEST_ID_MAX 128

enum request_turn { REQUEST_NEW, REQUEST_REPEAT, REQUEST_WAIT };

/* Requests under way, and those whose turn has come to ask again. */
struct requests {
    struct list under_way;
    struct list again;
    struct deadline wake;
};

/* It needs nothing of its call, which may end before it. */
struct request {
    struct list in_table;
    struct list waiting; /* of an under-way one: those that repeat it; of a waiting one: its node */
    struct requests *all;
    struct deadlines *deadlines;
    struct caller caller;
    struct request_key key; /* its strings live here and in the table of methods */
    char request_id[REQUEST_ID_MAX + 1];
    struct str object_id; /* REPEAT; NUL-terminated, in the call's arena */
    struct str answer;
    void (*on_again)(struct request *r);
};

void requests_init(struct requests *all);
/* `m` is the request message; what counts as its content is `m` without wait_ms and request_id. */
MUST_USE int request_begin(struct request *r, struct call *c, const ProtobufCMessage *m,
                           void (*on_again)(struct request *r), enum request_turn *ret_turn,
                           struct err *e);
/* Idempotent; also for a call that ends while it waits, and for a zeroed request. */
void request_settle(struct request *r);
