/* exec_attach — a reader of a program's output: the past from the log, then what comes, then the exit.
 *
 * Owner:   the call's state that embeds it (AttachExec, Interact).
 * Ends:    by itself with the call, after on_end; or by attachment_close when the call is cancelled.
 * It holds offsets and no bytes: what a client has not read yet is left in the log. While a client does
 * not read, or nothing comes, a reader costs its struct alone.
 * on_change and on_end may end the call; neither comes from inside attachment_open. */
#pragma once

#include "api/heartbeat.h"
#include "api/subject.h"

struct attachment {
    struct call *call;
    /* Optional; filled by the owner. The reader has been attached, or something about the program has
     * changed and what there was to send is sent. */
    void (*on_change)(struct attachment *a);
    /* Instead of attachment_close, which it calls: the call is about to be finished. */
    void (*on_end)(struct attachment *a);
    bool is_interactive; /* answers are InteractResponse */

    struct exec_watch watch;
    struct ledger_wait wait;
    struct heartbeat heartbeat;
    const char *reader; /* empty: without a name */
    uint64_t next[EXEC_STREAMS];
    uint64_t past[EXEC_STREAMS]; /* the end when the reader came */
    bool wanted[EXEC_STREAMS];
    bool until_now;
    bool fail_on_gap;
    bool has_joined; /* as a reader of the BLOCK policy */
    bool is_attached;
    bool is_full;
    bool drains;
    unsigned turn; /* the stream that goes first */
    uint64_t sequence;
};

/* `request` tells where to begin; its strings must live as long as the call. `prefix` stands before the
 * names of fields in errors. 0: the first message follows, now or once what it tells is durable. */
MUST_USE int attachment_open(struct attachment *a, struct exec *x,
                             const Berm__V1__AttachExecRequest *request, const char *prefix,
                             struct err *e);
/* Sends the first message; call it last, it may end the call. */
void attachment_begin(struct attachment *a);
void attachment_close(struct attachment *a); /* idempotent */
/* Ends reader and call. */
void attachment_finish(struct attachment *a, const struct err *e);

/* For the handler. False: the call is over. */
bool attachment_on_writable(struct attachment *a);
void attachment_drain(struct attachment *a);
/* Interact only. False: the call is over. */
bool attachment_accepted(struct attachment *a, uint64_t next_offset, uint64_t window_bytes);
