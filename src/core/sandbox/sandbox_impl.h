/* sandbox_impl — the fields of a sandbox, for core/sandbox alone. */
#pragma once

#include "core/files/files.h"
#include "core/imports/copies.h"
#include "core/imports/imports.h"
#include "core/sandbox/sandboxes.h"

/* The operation under way, for failpoints: base/failpoints.def lists six steps of each, in this order. A claim is a
 * create that found a parked instance; its last step, the reply, counts as a create's. */
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
    int64_t grace_ms;  /* of a stop; as in the contract */
    struct caller who; /* of a pause or resume */
    char request_id[132];
};

/* sandbox_instance.c: the claim of a parked instance. */
struct sandbox_claim {
    bool is_active; /* from the claim until the sandbox is READY or the claim is undone */
    bool has_name;  /* the parked instance already has this sandbox's host name */
    struct instance_limits limits; /* of the parked instance */
};

/* sandbox_link.c: lost links and failed connects. */
struct sandbox_relink {
    unsigned n_lost; /* within RELINKS_WITHIN_US */
    uint64_t first_lost_us;
    uint64_t connecting_since_us; /* 0 = the last connect succeeded */
    struct guest_wait configure_wait;
};

/* sandbox_update.c */
struct sandbox_updates {
    struct update *pending; /* waits for the driver to put limits in force */
    bool is_committing;     /* the entry that is on its way holds an update */
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
    char instance_id[INSTANCE_ID_MAX]; /* at the driver: the sandbox's id, or a parked one's */

    enum sandbox_goal
        shutdown_goal;  /* in SHUTDOWN: the goal for which the guest was asked to end */
    struct err failure; /* why the instance could not be created, or the guest not be reached */
    struct sandbox_request request;
    bool is_recovering; /* on_recovered is due */
    struct sandbox_claim claim;
    struct sandbox_relink relink;
    struct sandbox_updates updates;
    struct transcript *transcript;
    struct imports imports; /* while its imports are being opened */
    char *tool_path;        /* PATH of its execs where tools were found elsewhere; or NULL */

    struct list waits;
    struct list measures; /* waiters for the usage that the driver was asked for */
    struct instance_usage usage;
    bool has_usage; /* as last measured */

    struct deadline again;          /* retry: the store failed, or the guest did not answer */
    struct deadline guest_deadline; /* by which the guest has taken its settings, or has ended */
    struct deadline due;            /* its lifetime, or its idle time, is over */
};

static inline struct sandbox *sandbox_of(struct box *b) {
    return container_of(b, struct sandbox, box);
}
static inline bool sandbox_is_dormant(const struct sandbox *sb) {
    return !list_is_empty(&sb->in_dormant);
}

void sandbox_failpoint(const struct sandbox *sb, enum sandbox_step step);

/* sandbox.c: takes the record and adds the sandbox to `all`. An empty `instance` means that the id is the
 * sandbox's. NULL: no memory. */
struct sandbox *sandbox_new(struct sandboxes *all, struct driver *driver, Berm__V1__Sandbox *record,
                            uint64_t number, uint64_t slot, struct str instance);
/* sandbox_create.c: 0 when such a sandbox can start now. DRIVER_UNAVAILABLE, LIMIT_REACHED, STORE_FULL */
MUST_USE int sandbox_check_new(const struct env *env, const Berm__V1__SandboxSpec *spec,
                               struct err *e);
/* Why a state is entered. */
struct sandbox_why {
    int cause;                /* StateCause */
    const struct err *e;      /* what failed; NULL = nothing */
    const struct caller *who; /* NULL: the daemon, or the sandbox when `by_sandbox` */
    bool by_sandbox;
    const char *request_id;
};
/* Puts its record into the entry. */
void sandbox_put(struct sandbox *sb, struct entry *t);
/* Puts the change of state and its event into the entry. */
void sandbox_enter(struct sandbox *sb, struct entry *t, int state, const struct sandbox_why *why);
/* Commits an outcome: sandbox_enter in an entry of its own; converge retries when the store fails. */
void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_goal goal,
                     const struct sandbox_why *why);
/* Its state is durable and final for its goal. */
bool sandbox_settled(const struct sandbox *sb);
void sandbox_waits_check(struct sandbox *sb);
void sandbox_waits_end(struct sandbox *sb);

/* sandbox_lifetime.c */
void sandbox_lifetime_init(struct sandbox *sb);
/* Starts its TTL. */
void sandbox_lifetime_begin(struct sandbox *sb);
/* Sets the deadline of its TTL and idle TTL again, after a change that they depend on. */
void sandbox_lifetime_update(struct sandbox *sb);
/* An exec or file call came or ended: wakes it, and starts the idle TTL again. */
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
/* Takes a parked instance; the intent that names it comes next. */
void sandbox_claim(struct sandbox *sb, struct parked *p);
/* Opens its imports, then creates the instance or claims the parked one. */
void sandbox_make_instance(struct sandbox *sb);
/* A claim failed, or a restart interrupted it: removes the instance with its files, and creates another one. */
void sandbox_unclaim(struct sandbox *sb);
/* At a restart: finds the instance that its record names. */
void sandbox_adopt(struct sandbox *sb);

/* sandbox.c: 0 when its spec may change now */
MUST_USE int sandbox_check_change(const struct sandbox *sb, uint64_t incarnation, struct err *e);
/* sandbox_update.c: the instance, or the sandbox, ends while an update waits for the driver */
void sandbox_update_without_instance(struct sandbox *sb);
void sandbox_update_drop(struct sandbox *sb);

/* sandbox_link.c */
void sandbox_connect(struct sandbox *sb);
/* Connects to the guest of a dormant sandbox. */
void sandbox_wake(struct box *b);
/* Notices the end of an instance without a link. */
void sandbox_watch_exit(struct sandbox *sb);
/* Takes a greeted link and its transcript. */
void sandbox_take_link(struct sandbox *sb, struct guest_link *link, struct transcript *said);
/* Sends the guest its settings, unless it has them or they are on their way. */
void sandbox_configure(struct sandbox *sb);
void sandbox_disconnect(struct sandbox *sb);
/* The guest is gone, or will be: the next one has its own settings, deadlines and losses. */
void sandbox_forget_guest(struct sandbox *sb);
/* The link broke, or the guest broke the protocol: disconnects, and connects again unless that happens too often. */
void sandbox_lose_link(struct box *b, const struct err *e);
