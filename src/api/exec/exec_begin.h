/* exec_begin — starts an exec for a call: request id, checks, intent, and the guest's answer.
 *
 * Owner:   the call's state that embeds it.     Ends: on_begun, once; exec_begin_end at any time.
 * exec_begin or the loop calls on_begun. Without an error the exec is durable, and the guest has
 * answered or cannot answer now (its sandbox is paused or stopping); watch.exec stays in memory
 * until exec_begin_end. With an error exec_begin_end was called. */
#pragma once

#include "api/mutation.h"
#include "api/subject.h"

struct exec_begin {
    struct call *call;
    /* The request, set by the caller; must live as long as the call. */
    const ProtobufCMessage *request_message;
    const char *sandbox_id;
    const char *prefix; /* of fields in errors: "" or "start." */
    const char *asked_id;
    uint64_t incarnation;
    const Berm__V1__ExecSpec *spec;
    struct str stdin_data;
    bool is_run;
    void (*on_begun)(struct exec_begin *b, const struct err *e);

    const char *exec_id;       /* once accepted */
    struct mutation *mutation; /* NULL once the intent is durable */
    struct ledger_wait wait;
    struct exec_watch watch;
    bool opened;
    bool settling;
};

void exec_begin(struct exec_begin *b);
void exec_begin_end(struct exec_begin *b); /* idempotent; allowed before exec_begin */

/* The error of an exec that never ran, from its exit (EXEC-4); 0 for every other exec. */
MUST_USE int exec_begin_refusal(struct exec *x, struct err *e);
