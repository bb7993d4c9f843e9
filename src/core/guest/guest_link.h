/* guest_link — our side of the conversation with one guest, over a stream the driver gave.
 *
 * Owner:   its sandbox, which also connects again after a loss.
 * States:  open → hello asked → on_exec for each program the guest knows → on_ready → …
 *          → on_lost, last; or guest_link_close, after which nothing comes.
 * Bounds:  GUEST_WAITING_MAX requests without an answer, cancelled ones too, and 4 MiB that the guest has
 *          not read. A request over them is refused with LIMIT_REACHED and nothing happened; one that
 *          nobody waits for ends the link instead, so that none is missed in silence. Messages as
 *          spec/guest.md says; a guest that breaks the protocol, or does not say hello within 10 s, is lost
 *          to this link.
 * Errors:  what the guest answered, by its number; GUEST_LOST for all that wait when the stream ends,
 *          GUEST_PROTOCOL when the guest broke the protocol, GUEST_VERSION. Never sent: LIMIT_REACHED,
 *          MESSAGE_TOO_LARGE, INVALID_ARGUMENT (no UTF-8), UNSUPPORTED (descriptors cannot travel);
 *          GUEST_LOST after the loss.     Spec: spec/guest.md
 * Inside a callback you may call anything here; callbacks never come from inside a call. */
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
    void (*on_lost)(struct guest_link *l, const struct err *e); /* last; the owner closes */
};

struct guest_link_spec {
    uv_loop_t *loop;
    struct deadlines *deadlines;
    int fd;                        /* a connected Unix stream socket; taken */
    struct transcript *transcript; /* borrowed; NULL = none */
    const char *run_id;
    const char *sandbox_id;
    uint64_t incarnation;
    int64_t lease_ms;
    const struct guest_events *events;
    void *user;
};

/* How a request ended. The result and the fds are borrowed: an fd that is kept is set to -1. Each fd is a
 * regular file or a pipe, as fstat says; whether it can be read, and what reading it costs, is not known. */
struct guest_answer {
    const struct err *e;       /* NULL on success */
    int64_t next_offset;       /* of a failure that says one; -1 = none */
    const struct json *result; /* as received; for core/guest alone */
    /* What the typed call says it answers with; NULL otherwise. */
    const struct guest_file_answer *file;
    const struct guest_exec_state *exec;
    const struct guest_input_answer *input;
    int *fds;
    size_t n_fds;
};

/* What a request asked for, where its answer must stay within that. */
struct guest_bound {
    uint64_t offset;
    uint64_t max_bytes;
};

/* A request that waits; a node inside the object that asked. */
struct guest_wait {
    struct list in_link;
    int64_t id;
    void (*on_answer)(struct guest_wait *w, const struct guest_answer *a);
    /* Set by the typed call: validates the result and puts it into `ret`, in memory of the arena. NULL: the
     * result holds nothing. */
    int (*read)(const struct guest_wait *w, const struct json *result, struct arena *a,
                struct guest_answer *ret, struct err *e);
    int method;
    struct guest_bound bound;
};

/* NULL on -ENOMEM and the like, and then the fd is closed. */
struct guest_link *guest_link_open(const struct guest_link_spec *spec);
void guest_link_close(struct guest_link *l);
/* Another owner hears from it from here on. It has said hello, and nobody waits for an answer. */
void guest_link_give(struct guest_link *l, const struct guest_events *events, void *user);
void *guest_link_user(const struct guest_link *l);
/* What the guest said in its hello: nothing before on_ready. */
bool guest_link_has(const struct guest_link *l, const char *capability);
bool guest_link_passes_fds(const struct guest_link *l);

void guest_wait_init(struct guest_wait *w,
                     void (*on_answer)(struct guest_wait *w, const struct guest_answer *a));
/* The answer, when it comes, is read and dropped. Safe to call at any time. */
void guest_wait_cancel(struct guest_wait *w);
static inline bool guest_wait_is_on(const struct guest_wait *w) {
    return !list_is_empty(&w->in_link);
}
