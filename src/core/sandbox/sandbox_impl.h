/* The sandbox's insides, for core alone. */
#pragma once

#include "base/map.h"
#include "core/guest/guest_notice.h"
#include "core/imports/imports.h"
#include "core/registry/registry_impl.h"
#include "core/sandbox/sandbox.h"
#include "core/sandbox/sandbox_state.h"

/* What is being done, for failpoints: they come in this order, six steps each. A claim is a create that
 * found an instance; its reply is a create's. */
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

/* A program's cgroup that waits for its program; see exec_cgroup.c. */
struct exec_cgroup_ahead {
    uint32_t cgroup;       /* its number; 0 = none */
    int fd;                /* -1 = it is being made */
    struct deadline quiet; /* when it is given back */
};

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
    struct map_node by_id;
    struct list in_registry;
    struct list in_dormant; /* of the registry: adopted, and no call has needed its guest yet */
    struct registry *registry;
    struct recorded recorded;
    Berm__V1__Sandbox *record;
    uint64_t number;
    struct driver *driver; /* NULL: it is not loaded, and the record stays as it is */
    uint64_t slot;
    char instance_id
        [INSTANCE_ID_MAX]; /* the driver's name of it: the sandbox's id, or a parked one's */

    enum sandbox_goal goal;                     /* sandbox_set_goal */
    enum sandbox_instance_state instance_state; /* sandbox_set_instance */
    enum sandbox_link_state link_state;         /* sandbox_set_link */
    enum sandbox_goal
        shutdown_goal;  /* in SHUTDOWN: the goal for which the guest was asked to end */
    struct err failure; /* why the instance could not be created, or the guest not be reached */
    struct sandbox_request request;
    bool is_recovering; /* registry_recover waits for it */

    struct instance
        *instance; /* NULL in NONE, CREATING before the driver answers, CLEARING, REMOVING */
    struct sandbox_claim claim;
    struct guest_link *link; /* NULL in LINK_NONE and LINK_LOST */
    struct sandbox_relink relink;
    struct transcript *transcript;
    int dir_fd; /* its directory below the state directory, -1 = not open */

    struct imports imports;  /* while its imports are being opened */
    char *tool_path;         /* PATH of its execs where tools were found elsewhere; or NULL */
    struct copying *copying; /* while copies go in; see copies.h */
    bool copied;
    struct sandbox_updates updates;

    struct list execs;  /* all that are in memory */
    unsigned n_started; /* execs, since their records were last pruned */
    unsigned n_running;
    uint64_t newest_exec; /* number of the last exec that this daemon started; 0 = none */
    struct exec_cgroup_ahead ahead;
    bool cgroups_are_swept;  /* those that the previous daemon left */
    uint64_t oom_kills_seen; /* of the instance, at the last exec that might have been one */
    uint64_t output_kept;    /* of all its execs, once it is counted */
    bool output_counted;

    struct list waits;
    struct list measures; /* of usage, waiting for the driver */
    struct list files;    /* file calls, those that only wait for an answer too */
    unsigned n_files;
    unsigned n_file_handles;

    struct deadline again;          /* retry: the store failed, or the guest did not answer */
    struct deadline guest_deadline; /* by which the guest has taken its settings, or has ended */
    struct deadline due;            /* its lifetime, or its idle time, is over */
};

/* Whose rights programs have that ask for nobody's. */
static inline const char *sandbox_user(const struct sandbox *sb) {
    bool is_root = sb->record->spec->profile == BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT;
    return is_root ? "root" : "user";
}
static inline bool sandbox_is_dormant(const struct sandbox *sb) {
    return !list_is_empty(&sb->in_dormant);
}
static inline bool sandbox_is(const struct sandbox *sb, int state) {
    return sb->record->state == (Berm__V1__SandboxState)state;
}
#define SB_PENDING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_PENDING
#define SB_READY BERM__V1__SANDBOX_STATE__SANDBOX_STATE_READY
#define SB_PAUSED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_PAUSED
#define SB_STOPPING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPING
#define SB_STOPPED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_STOPPED
#define SB_FAILED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_FAILED
#define SB_DELETING BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETING
#define SB_DELETED BERM__V1__SANDBOX_STATE__SANDBOX_STATE_DELETED

void sandbox_failpoint(const struct sandbox *sb, enum sandbox_step step);

/* sandbox.c: in the registry from here on, which owns the record with it; an empty instance is one of its own.
 * NULL: no memory. */
struct sandbox *sandbox_new(struct registry *r, struct driver *driver, Berm__V1__Sandbox *record,
                            uint64_t number, uint64_t slot, struct str instance);
/* Descriptors that are free when one begins: its own, those of its making, and some for who asks meanwhile. */
#define SANDBOX_FDS 16
/* sandbox_create.c: there is what one like this needs to begin. DRIVER_UNAVAILABLE, LIMIT_REACHED, STORE_FULL */
MUST_USE int sandbox_check_new(const struct registry *r, const Berm__V1__SandboxSpec *spec,
                               struct err *e);
/* rebuilt from its row; NULL on a damaged record or no memory. */
struct sandbox *sandbox_restore(struct registry *r, const struct db_sandbox *row);
void sandbox_free(struct sandbox *sb);
/* Why a state is entered. */
struct sandbox_why {
    int cause;                /* StateCause */
    const struct err *e;      /* what failed; NULL = nothing */
    const struct caller *who; /* NULL: the daemon, or the sandbox when `by_sandbox` */
    bool by_sandbox;
    const char *request_id;
};
/* Puts it into the entry, as it stands. */
void sandbox_put(struct sandbox *sb, struct entry *t);
/* Puts the change of state and its event into the entry. */
void sandbox_enter(struct sandbox *sb, struct entry *t, int state, const struct sandbox_why *why);
/* An outcome: the same in an entry of its own; tried again when the store fails. */
void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_goal goal,
                     const struct sandbox_why *why);
/* An event about it, with actor, owner and the like filled in. */
void sandbox_event_init(const struct sandbox *sb, Berm__V1__Event *event, Berm__V1__Actor *actor,
                        const struct caller *who, bool by_sandbox, const char *request_id);
/* Is it where it is wanted, durable, and not on its way? */
bool sandbox_settled(const struct sandbox *sb);
void sandbox_look_at_waits(struct sandbox *sb);
/* Its folder below the state directory, made on first use; -errno. */
int sandbox_dir(struct sandbox *sb);

/* exec_cgroup.c: and when the instance, with all its cgroups, is gone */
void exec_cgroup_ahead_init(struct sandbox *sb);
void exec_cgroup_ahead_done(struct sandbox *sb);

/* lifetime.c */
void sandbox_lifetime_init(struct sandbox *sb);
/* Its whole time counts from now. */
void sandbox_lifetime_begins(struct sandbox *sb);
/* Something happened that its times depend on. */
void sandbox_lifetime_look(struct sandbox *sb);
/* A program or file call came, or a program ended. */
void sandbox_touch(struct sandbox *sb);

/* usage.c */
void sandbox_measures_end(struct sandbox *sb);
/* sandbox.c */
int sandbox_not_there(const struct sandbox *sb, struct err *e);
/* DRIVER_UNAVAILABLE unless its driver is loaded. */
MUST_USE int sandbox_check_driver(const struct sandbox *sb, struct err *e);

/* converge.c */
void sandbox_converge(struct sandbox *sb);

/* sandbox_instance.c */
struct parked;
/* It has an instance already; the intent that says so comes next. */
void sandbox_claims(struct sandbox *sb, const struct parked *p);
/* Makes the instance, or of the parked one what is wanted. */
void sandbox_make_instance(struct sandbox *sb);
/* A claim did not work out, or nobody knows how far it came: what is there goes, files too, and the
 * instance is made anew under its name. */
void sandbox_unclaim(struct sandbox *sb);
/* At a restart: finds the instance its record speaks of. */
void sandbox_adopt(struct sandbox *sb);
/* Asks which kills the memory controller has counted, so that later ones show. */
void sandbox_learn_kills(struct sandbox *sb);
void sandbox_limits(const Berm__V1__SandboxSpec *spec, struct instance_limits *ret_limits);

/* sandbox.c: whether its spec may change now */
MUST_USE int sandbox_check_change(const struct sandbox *sb, uint64_t incarnation, struct err *e);
/* sandbox_update.c: an update that waits when the instance goes, or the sandbox */
void sandbox_update_without_instance(struct sandbox *sb);
void sandbox_update_drop(struct sandbox *sb);

/* sandbox_link.c */
void sandbox_connect(struct sandbox *sb);
/* Greets the guest of one that rests, for somebody needs it. */
void sandbox_wake(struct sandbox *sb);
/* Of one that nobody talks to the end shall be seen all the same. */
void sandbox_watch_exit(struct sandbox *sb);
/* A link that has said hello, and what was said on it. */
void sandbox_take_link(struct sandbox *sb, struct guest_link *link, struct transcript *said);
/* Tells the guest its settings, unless it has them or is being told. */
void sandbox_configure(struct sandbox *sb);
void sandbox_disconnect(struct sandbox *sb);
/* The guest is gone, or will be: the next one has its own settings, deadlines and losses. */
void sandbox_forget_guest(struct sandbox *sb);
/* The link broke, or whoever is at its other end broke the protocol. */
void sandbox_lose_link(struct sandbox *sb, const struct err *e);

/* files.c: no file call can go on, for now or (is_final) at all; what the guest says of one */
void files_gone(struct sandbox *sb, bool is_final);
void files_notice(struct sandbox *sb, const struct guest_notice *n);
