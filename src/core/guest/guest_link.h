/* guest_link — the daemon's end of the connection to one guest, on a stream that the driver
 * provides.
 *
 * The typed calls are in guest_exec.h, guest_files.h and guest_sandbox.h.
 * Owner:   its sandbox, which also connects again after a loss.
 * End:     on_lost, exactly once, as the last callback; or guest_link_close, after which no
 *          callback fires.
 * States:  open → hello sent → on_exec for each exec that the guest knows → on_ready → on_lost.
 * Bounds:  GUEST_WAITING_MAX requests without an answer, including cancelled ones, and 4 MiB that
 *          the guest has not read. A request beyond them fails with LIMIT_REACHED and is not sent.
 *          If nobody waits for that request, the link ends instead, so that no request is lost
 *          silently. spec/guest.md bounds messages. A guest that breaks the protocol, or does not
 *          answer hello within 10 s, loses the link.
 * Errors:  the error that the guest answered. When the link ends, all waiters get GUEST_LOST,
 *          GUEST_PROTOCOL (the guest broke the protocol) or GUEST_VERSION. A request that was not
 *          sent fails with LIMIT_REACHED, MESSAGE_TOO_LARGE, INVALID_ARGUMENT (not UTF-8),
 *          UNSUPPORTED (the stream cannot pass descriptors) or GUEST_LOST.
 * Spec:    spec/guest.md
 * Inside a callback you may call every function of this folder. No function calls back before it
 * returns. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "core/guest/transcript.h"
#include "loop/deadline.h"

#define GUEST_WAITING_MAX 256
#define GUEST_FDS_MAX 8

struct arena;
struct json;
struct guest_link;
struct guest_exec_state;
struct guest_file_answer;
struct guest_input_answer;
struct guest_notice;

struct guest_events {
    void (*on_exec)(struct guest_link *l, const struct guest_exec_state *state);
    /* The versions agree; the guest answers requests from now on. */
    void (*on_ready)(struct guest_link *l);
    void (*on_notice)(struct guest_link *l, const struct guest_notice *n);
    void (*on_lost)(struct guest_link *l,
                    const struct err *e); /* the last callback; the owner then closes the link */
};

struct guest_link_spec {
    uv_loop_t *loop;
    struct deadlines *deadlines;
    int fd;                        /* a connected Unix stream socket; the link takes it */
    bool is_bytes_only;            /* the socket passes no descriptors */
    struct transcript *transcript; /* borrowed; NULL = none */
    const char *run_id;
    const char *sandbox_id;
    uint64_t incarnation;
    int64_t lease_ms;
    const struct guest_events *events;
    void *user;
};

/* How a request ended, borrowed for the callback. A waiter that keeps a descriptor sets it to -1
 * here. Each descriptor is a regular file or a pipe, as fstat says; reading it may fail or
 * block. */
struct guest_answer {
    const struct err *e;       /* NULL on success */
    int64_t next_offset;       /* offset that came with an error; -1 = none */
    const struct json *result; /* not validated; only core/guest reads it */
    /* Each typed call sets one of these members, which the comment at the call's declaration names;
     * the others are NULL. */
    const struct guest_file_answer *file;
    const struct guest_exec_state *exec;
    const struct guest_input_answer *input;
    const struct guest_output_answer *output;
    int *fds;
    size_t n_fds;
};

/* The range that a request asked for. Its answer must stay within it. */
struct guest_bound {
    uint64_t offset;
    uint64_t max_bytes;
};

/* The waiter of a request, embedded in the object that sent it. */
struct guest_wait {
    struct list in_link;
    int64_t id;
    void (*on_answer)(struct guest_wait *w, const struct guest_answer *a);
    /* Set by the typed call: validates the result and stores it in `ret`, in memory of the arena.
     * NULL: the result is empty. */
    int (*read)(const struct guest_wait *w, const struct json *result, struct arena *a,
                struct guest_answer *ret, struct err *e);
    int method;
    struct guest_bound bound;
};

/* Returns NULL, and closes the descriptor, when there is no memory or no poll handle. */
struct guest_link *guest_link_open(const struct guest_link_spec *spec);
void guest_link_close(struct guest_link *l);
/* Passes the link to another owner. Call this only after on_ready and while no request is
 * pending. */
void guest_link_give(struct guest_link *l, const struct guest_events *events, void *user);
void *guest_link_user(const struct guest_link *l);
/* Returns whether the guest's hello named the capability; false before on_ready. */
bool guest_link_has(const struct guest_link *l, const char *capability);
/* Returns whether the link passes descriptors. Otherwise the guest keeps output itself, and files
 * travel in chunks. */
bool guest_link_passes_fds(const struct guest_link *l);

void guest_wait_init(struct guest_wait *w,
                     void (*on_answer)(struct guest_wait *w, const struct guest_answer *a));
/* Cancels the wait: the link drops the answer when it arrives. Allowed at any time. */
void guest_wait_cancel(struct guest_wait *w);
static inline bool guest_wait_is_on(const struct guest_wait *w) {
    return !list_is_empty(&w->in_link);
}
