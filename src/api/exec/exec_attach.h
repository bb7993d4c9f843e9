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
    /* Optional; set by the owner. The reader is attached, or the exec has changed and all available
     * output is sent. */
    void (*on_change)(struct attachment *a);
    /* Optional; set by the owner. The call is about to finish: call attachment_close. */
    void (*on_end)(struct attachment *a);
    bool is_interactive; /* sends InteractResponse instead of AttachExecResponse */

    struct exec_watch watch;
    struct ledger_wait wait;
    struct heartbeat heartbeat;
    const char *reader; /* empty: an unnamed reader */
    uint64_t next[EXEC_STREAMS];
    uint64_t past[EXEC_STREAMS]; /* the end when the reader attached */
    bool wanted[EXEC_STREAMS];
    bool until_now;
    bool fail_on_gap;
    bool has_joined; /* counts as a reader for the BLOCK policy */
    bool is_attached;
    bool is_full;
    bool drains;
    unsigned turn; /* the stream that is read next */
    uint64_t sequence;
};

/* `request` says where to start; its strings must live as long as the call. Errors put `prefix`
 * before field names. After 0, call attachment_begin. */
MUST_USE int attachment_open(struct attachment *a, struct exec *x,
                             const Berm__V1__AttachExecRequest *request, const char *prefix,
                             struct err *e);
/* Sends the first message once the exec's record is durable. Call it last: it may end the call. */
void attachment_begin(struct attachment *a);
void attachment_close(struct attachment *a); /* idempotent */
/* Ends reader and call. */
void attachment_finish(struct attachment *a, const struct err *e);

/* For the handler. False: the call is over. */
bool attachment_on_writable(struct attachment *a);
void attachment_drain(struct attachment *a);
/* Interact only. False: the call is over. */
bool attachment_accepted(struct attachment *a, uint64_t next_offset, uint64_t window_bytes);
