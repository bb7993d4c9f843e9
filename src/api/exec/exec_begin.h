/* exec_begin — starts an exec for a call: request id, checks, intent, and the guest's answer.
 *
 * Owner:   the call's state that embeds it.     Ends: on_begun, once; exec_begin_end at any time.
 * on_begun runs inside exec_begin or later from the loop. If it gets no error, the exec is durable,
 * and the guest has answered or cannot answer now (its sandbox is paused or stopping); watch.exec
 * stays in memory until exec_begin_end. If it gets an error, exec_begin_end was already called. */
#pragma once

#include "api/mutation.h"
#include "api/subject.h"

struct exec_begin {
    struct call *call;
    /* The request, set by the caller; must live as long as the call. */
    const ProtobufCMessage *request_message;
    const char *sandbox_id;
    const char *prefix; /* put before field names in errors: "" or "start." */
    const char *asked_id;
    uint64_t incarnation;
    const Berm__V1__ExecSpec *spec;
    struct str stdin_data;
    bool is_run;
    void (*on_begun)(struct exec_begin *b, const struct err *e);

    const char *exec_id;       /* set when the exec is accepted */
    struct mutation *mutation; /* NULL once the intent is durable */
    struct ledger_wait wait;
    struct exec_watch watch;
    bool opened;
    bool settling;
};

void exec_begin(struct exec_begin *b);
void exec_begin_end(struct exec_begin *b); /* idempotent; allowed before exec_begin */

/* Fails with the error of an exec that never ran, which its exit contains (EXEC-4). Returns 0 for
 * every other exec. */
MUST_USE int exec_begin_refusal(struct exec *x, struct err *e);
