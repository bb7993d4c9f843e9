/* exec_attach — a reader of an exec's output: stored output, then new output, then the exit.
 *
 * Owner:   the call's state that embeds it (AttachExec, Interact).
 * Ends:    by itself with the call, after on_end; or by attachment_close when the call is
 *          cancelled.
 * Bounds:  it holds offsets, not bytes. Output that the client has not read stays in the log.
 * on_change and on_end may end the call. attachment_open calls neither. */
#pragma once

#include "api/heartbeat.h"
#include "api/subject.h"

struct attachment {
    struct call *call;
    /* Optional; set by the owner. Called when the reader is attached, and when the exec has changed
     * and all available output is sent. */
    void (*on_change)(struct attachment *a);
    /* Optional; set by the owner. Called when the call is about to finish; must call
     * attachment_close. */
    void (*on_end)(struct attachment *a);
    bool is_interactive; /* sends InteractResponse instead of AttachExecResponse */

    struct exec_watch watch;
    struct ledger_wait wait;
    struct heartbeat heartbeat;
    const char *reader; /* id of a named reader; empty: unnamed */
    uint64_t next[EXEC_STREAMS];
    uint64_t past[EXEC_STREAMS]; /* end of the stream when the reader attached */
    bool wanted[EXEC_STREAMS];
    bool until_now;
    bool fail_on_gap;
    bool has_joined; /* the BLOCK policy waits for this reader */
    bool is_attached;
    bool is_full;
    bool drains;
    unsigned turn; /* the stream that is read next */
    uint64_t sequence;
};

/* Prepares the reader. `request` says where to start; its strings must live as long as the call.
 * Errors put `prefix` before field names. After a return of 0, call attachment_begin. */
MUST_USE int attachment_open(struct attachment *a, struct exec *x,
                             const Berm__V1__AttachExecRequest *request, const char *prefix,
                             struct err *e);
/* Sends the first message once the exec's record is durable. Call it last: it may end the call. */
void attachment_begin(struct attachment *a);
void attachment_close(struct attachment *a); /* idempotent */
/* Ends the reader and the call. */
void attachment_finish(struct attachment *a, const struct err *e);

/* The handler's on_writable calls this. Returns false if the call is over. */
bool attachment_on_writable(struct attachment *a);
void attachment_drain(struct attachment *a);
/* Interact only: reports how much input was accepted. Returns false if the call is over. */
bool attachment_accepted(struct attachment *a, uint64_t next_offset, uint64_t window_bytes);
