/* The sandbox's insides, for core alone. */
#pragma once

#include "base/map.h"
#include "core/guest/guest_link.h"
#include "core/imports/imports.h"
#include "core/registry_impl.h"
#include "core/sandbox/sandbox.h"

/* What is there of it, apart from what its record says. */
enum sandbox_presence {
    PRESENCE_NONE,   /* no process of it */
    PRESENCE_PARKED, /* the guest lives, and nothing in it is this sandbox's yet */
    PRESENCE_MAKING, /* the driver is at it */
    PRESENCE_UP,     /* the guest lives */
    PRESENCE_ENDING, /* the driver was asked to end it */
};

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

struct sandbox {
    struct map_node by_id;
    struct list in_registry;
    struct list
        in_dormant; /* of the registry: its guest is not greeted, for nobody needed it yet */
    struct registry *registry;
    struct recorded recorded;
    Berm__V1__Sandbox *record;
    uint64_t number;
    struct driver *driver; /* NULL: it is not loaded, and the record stays as it is */
    uint64_t slot;
    char instance_id
        [INSTANCE_ID_MAX]; /* the driver's name for it: its own, or that of a parked one */
    enum sandbox_wanted wanted;
    enum sandbox_op op;
    int64_t grace_ms;
    struct caller asked_by; /* of the last pause or resume, for the event of its outcome */
    char asked_under[132];  /* its request id */
    struct instance *instance;
    struct imports imports;  /* while its mounts are being opened */
    char *tool_path;         /* PATH of its programs where tools were found elsewhere; or NULL */
    struct copying *copying; /* while it is at it; see copies.h */
    bool copied;
    enum sandbox_presence presence;
    bool frozen;
    bool freezing; /* the driver was asked to freeze or thaw */
    bool freezing_to;
    bool claiming;   /* the instance was parked; until it is READY */
    bool has_name;   /* the parked instance was made with this sandbox's */
    bool configured; /* the guest has its environment */
    bool removing;   /* its files are being removed */
    bool recovering;
    enum sandbox_wanted asked_to_end; /* for what the guest was asked to shut down; 0 = not */
    struct guest_link *link;
    bool linked;
    unsigned n_relinks; /* within the last ten seconds */
    uint64_t relinks_began_us;
    uint64_t connecting_since_us; /* 0 = the last try was answered */
    bool updated;                 /* by the entry on its way */
    struct update *update;        /* waits for the driver to put limits in force */
    struct guest_wait configure_wait;
    struct transcript *transcript;
    int dir_fd;         /* its folder, -1 = not open */
    struct err failure; /* why the instance could not be made, or the guest not be reached */
    struct list execs;  /* all that are in memory */
    unsigned n_started; /* programs, since their records were last pruned */
    unsigned n_running;
    uint64_t newest_exec; /* number of the last program that this daemon started; 0 = none */
    struct exec_cgroup_ahead ahead;
    bool cgroups_are_swept;  /* what the daemon before left of cgroups */
    uint64_t oom_kills_seen; /* of the sandbox, at the last program that might have been one */
    struct list waits;
    struct list measures; /* of usage, waiting for the driver */
    struct list files;    /* file calls, those that only wait for an answer too */
    unsigned n_files;
    unsigned n_file_handles;
    struct deadline again;          /* the store failed, or the guest did not answer: try again */
    struct deadline guest_deadline; /* the guest was asked to end, or told its settings */
    struct deadline due;            /* its time, or its idle time, is over */
    int cause;                      /* StateCause of what is wanted */
    uint64_t output_kept;           /* of all its programs, once it is */
    bool output_counted;
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
/* The error of a change that the store does not take. */
int sandbox_no_entry(struct err *e);
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
void sandbox_outcome(struct sandbox *sb, int state, enum sandbox_wanted wanted,
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
/* The link broke, or whoever is at its other end broke the protocol. */
void sandbox_lose_link(struct sandbox *sb, const struct err *e);

/* files.c: no file call can go on, for now or (is_final) at all; what the guest says of one */
void files_gone(struct sandbox *sb, bool is_final);
void files_notice(struct sandbox *sb, struct str method, const struct json *params);
