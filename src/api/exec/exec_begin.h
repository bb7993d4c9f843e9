/* exec_begin — the start of a program on behalf of a call: its request id, the checks, the intent, and
 * the guest's answer.
 *
 * Owner:   the call's state that embeds it.     Ends: on_begun, once; exec_begin_end at any time.
 * on_begun comes from the loop or from inside exec_begin. Without an error the program is accepted and
 * durable, and the guest has answered, or cannot now (its sandbox is paused or stopping); watch.exec is
 * the program and stays in memory until exec_begin_end. With one nothing is held any more. */
#pragma once

#include "api/subject.h"

struct acceptance;

struct exec_begin {
    struct call *call;
    /* What was asked, living as long as the call; filled by the caller. */
    const ProtobufCMessage *request_message;
    const char *sandbox_id;
    const char *prefix; /* of fields in errors: "" or "start." */
    const char *asked_id;
    uint64_t incarnation;
    const Berm__V1__ExecSpec *spec;
    struct str stdin_data;
    bool is_run;
    void (*on_begun)(struct exec_begin *b, const struct err *e);

    const char *exec_id; /* once accepted */
    struct acceptance *acceptance;
    struct ledger_wait wait;
    struct exec_watch watch;
    bool opened;
    bool settling;
};

void exec_begin(struct exec_begin *b);
void exec_begin_end(struct exec_begin *b); /* idempotent; also for one that never began */

/* When the program never ran: the reason its exit gives, as an error of the call (EXEC-4). */
MUST_USE int exec_begin_refusal(struct exec *x, struct err *e);
