/* sandbox_impl — the fields of a sandbox; only core/sandbox includes it. */
#pragma once

#include "core/files/files.h"
#include "core/imports/copies.h"
#include "core/imports/imports.h"
#include "core/sandbox/sandboxes.h"

/* The current operation, for failpoints. base/failpoints.def lists six steps per operation, in this
 * order. A claim is a create that found a parked instance; its last step, the reply, counts as that
 * of a create. */
enum sandbox_op {
    OP_NONE,
    OP_CREATE,
    OP_START,
    OP_STOP,
    OP_PAUSE,
    OP_RESUME,
    OP_DELETE,
    OP_CLAIM,
};
enum sandbox_step { OP_INTENT, OP_COMMIT, OP_SEND, OP_ACK, OP_OUTCOME, OP_REPLY };

/* The last request that was accepted, for converge and for the event of its outcome. */
struct sandbox_request {
    enum sandbox_op op;
    int cause;         /* StateCause */
    int64_t grace_ms;  /* set for a stop; see StopSandboxRequest */
    struct caller who; /* set for a pause or resume */
    char request_id[132];
};

/* sandbox_instance.c: the claim of a parked instance. */
struct sandbox_claim {
    bool is_active; /* from the claim until the sandbox is READY or the claim is undone */
    bool has_name;  /* the parked instance already has this sandbox's host name */
    struct instance_limits limits; /* limits of the parked instance */
};

/* sandbox_link.c: lost links and failed connects. */
struct sandbox_relink {
    unsigned n_lost; /* number of losses within RELINKS_WITHIN_US */
    uint64_t first_lost_us;
    uint64_t connecting_since_us; /* 0 = the last connect succeeded */
    struct guest_wait configure_wait;
};

/* sandbox_update.c */
struct sandbox_updates {
    struct update *pending; /* waits until the driver has applied the limits */
    bool is_committing;     /* the pending entry contains an update */
};

struct sandbox {
    struct box box; /* what its execs, file calls and imports use */
    struct execs execs;
    struct files files;
    struct copies copies;

    struct sandboxes *all;
    struct map_node by_id;
    struct list in_all;
    struct list in_dormant;
    struct recorded recorded;
    uint64_t number;
    uint64_t slot;
    char instance_id[INSTANCE_ID_MAX]; /* id of the sandbox, or of the claimed instance */

    enum sandbox_goal
        shutdown_goal;  /* in SHUTDOWN: the goal for which the guest was asked to end */
    struct err failure; /* why the instance was not created or the guest was not reached */
    struct sandbox_request request;
    bool is_recovering; /* on_recovered has not been called yet */
    struct sandbox_claim claim;
    struct sandbox_relink relink;
    struct sandbox_updates updates;
    struct transcript *transcript;
    struct imports imports; /* valid while berm-open opens the imports */
    char *tool_path;        /* PATH of execs, if tools were found outside /usr; or NULL */

    struct list waits;
    struct list measures; /* waiters for the pending measurement */
    struct instance_usage usage;
    bool has_usage; /* `usage` has the last measurement */

    struct deadline again; /* when to retry after the store failed or the guest did not answer */
    /* When the guest must have accepted its settings, or have ended. */
    struct deadline guest_deadline;
    struct deadline due; /* when the TTL or the idle TTL ends */
};

static inline struct sandbox *sandbox_of(struct box *b) {
    return container_of(b, struct sandbox, box);
}
static inline bool sandbox_is_dormant(const struct sandbox *sb) {
    return !list_is_empty(&sb->in_dormant);
}

void sandbox_failpoint(const struct sandbox *sb, enum sandbox_step step);

/* sandbox.c: takes ownership of the record and adds the sandbox to `all`. If `instance` is empty,
 * the id of the instance is the sandbox's id. Returns NULL if there is no memory. */
struct sandbox *sandbox_new(struct sandboxes *all, struct driver *driver, Berm__V1__Sandbox *record,
                            uint64_t number, uint64_t slot, struct str instance);
/* sandbox_create.c: returns 0 when a sandbox with this spec can start now. DRIVER_UNAVAILABLE,
 * LIMIT_REACHED, STORE_FULL */
MUST_USE int sandbox_check_new(const struct env *env, const Berm__V1__SandboxSpec *spec,
                               struct err *e);
/* The reason of a state change. */
struct sandbox_why {
    int cause;                /* StateCause */
    const struct err *e;      /* the error that caused the change; NULL: none */
    const struct caller *who; /* NULL: the daemon, or the sandbox when `by_sandbox` */
    bool by_sandbox;
    const char *request_id;
};
/* Puts the record of the sandbox into the entry. */
void sandbox_put(struct sandbox *sb, struct entry *t);
/* Puts the change of state and its event into the entry. */
void sandbox_enter(struct sandbox *sb, struct entry *t, int state, const struct sandbox_why *why);
/* Commits an outcome: sandbox_enter in an entry of its own; converge retries when the store
 * fails. */
void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_goal goal,
                     const struct sandbox_why *why);
/* Returns whether the state is durable and final for the goal. */
bool sandbox_settled(const struct sandbox *sb);
void sandbox_waits_check(struct sandbox *sb);
void sandbox_waits_end(struct sandbox *sb);

/* sandbox_lifetime.c */
void sandbox_lifetime_init(struct sandbox *sb);
/* Starts the TTL of the sandbox. */
void sandbox_lifetime_begin(struct sandbox *sb);
/* Recalculates the deadline of the TTL and idle TTL after a change that affects them. */
void sandbox_lifetime_update(struct sandbox *sb);
/* An exec or file call started or ended: wakes a dormant sandbox and restarts the idle TTL. */
void sandbox_touch(struct box *b);

/* sandbox_usage.c */
void sandbox_measures_end(struct sandbox *sb);

/* sandbox_reserve.c: STORE_FULL when a sandbox like this may not start now, or may not continue */
MUST_USE int sandbox_reserve_check_new(const struct env *env, const Berm__V1__SandboxSpec *spec,
                                       struct err *e);
MUST_USE int sandbox_reserve_check(const struct sandbox *sb, struct err *e);

/* sandbox_converge.c */
void sandbox_converge(struct sandbox *sb);

/* sandbox_instance.c */
/* Takes a parked instance. The intent that names the instance follows. */
void sandbox_claim(struct sandbox *sb, struct parked *p);
/* Opens the imports, then creates the instance or claims the parked instance. */
void sandbox_make_instance(struct sandbox *sb);
/* Call this when a claim failed or a restart interrupted it. Removes the instance with its files,
 * and creates another one. */
void sandbox_unclaim(struct sandbox *sb);
/* Call this at a restart. Finds the instance that the record names. */
void sandbox_adopt(struct sandbox *sb);

/* sandbox.c: returns 0 when the spec may change now */
MUST_USE int sandbox_check_change(const struct sandbox *sb, uint64_t incarnation, struct err *e);
/* sandbox_update.c: handles the end of the instance or sandbox while an update waits for the
 * driver */
void sandbox_update_without_instance(struct sandbox *sb);
void sandbox_update_drop(struct sandbox *sb);

/* sandbox_link.c */
void sandbox_connect(struct sandbox *sb);
/* Connects to the guest of a dormant sandbox. */
void sandbox_wake(struct box *b);
/* Makes bermd notice the end of an instance without a link. */
void sandbox_watch_exit(struct sandbox *sb);
/* Takes a greeted link and its transcript. */
void sandbox_take_link(struct sandbox *sb, struct guest_link *link, struct transcript *said);
/* Sends the guest its settings, unless the guest has them or configure is pending. */
void sandbox_configure(struct sandbox *sb);
void sandbox_disconnect(struct sandbox *sb);
/* Call this when the guest is gone or about to end. Resets the state of the link for the next
 * guest. */
void sandbox_forget_guest(struct sandbox *sb);
