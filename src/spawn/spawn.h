/* spawn — the long-lived state of berm-spawn: descriptors of the host, templates, features.
 *
 * At start, berm-spawn opens everything that it will need of the host, then moves into its own
 * mount namespace, whose root is one small read-only tmpfs. Every sandbox's mount namespace starts
 * as a copy of it, so nothing of the host is below a sandbox's root. To clone host directories,
 * berm-spawn enters the host's mount namespace for one system call; it never attaches anything
 * there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "spawn/cgroup.h"
#include "spawn/net.h"
#include "spawn/quota.h"
#include "spawn/request.h"

#define SPAWN_TREES_MAX 12
#define SPAWN_ROOTS_MAX 8
#define SPAWN_STACK_BYTES (64 * 1024)
/* Descriptors held for sandboxes have numbers from here on, above those that one request needs. */
#define SPAWN_HELD_FD 1024
/* The number of instances with held descriptors. There is a limit because berm-spawn does not learn
 * which instances were claimed without a CLAIM. */
#define SPAWN_HELD_MAX 128

struct instance;

/* A host directory that is part of the root `host`. */
struct spawn_tree {
    char target[32]; /* target, relative to the root */
    int fd;          /* opened in the host's mount namespace */
    bool packages;   /* state of the package manager; only mounted where it is writable */
};

/* The descriptors left from building a root; see mounts_done. */
#define MOUNTS_FDS_MAX 256
#define MOUNTS_SPENT_MAX 64 /* with more descriptors, the next CREATE closes them first */
struct mounts {
    int fds[MOUNTS_FDS_MAX];
    unsigned n_fds;
    bool made_layer; /* the layer is new */
};

struct spawn {
    int self;    /* pidfd of this process */
    int host_ns; /* mount namespaces of the host and of our own */
    int own_ns;
    int own_uts;   /* our own UTS namespace */
    int proc;      /* a full procfs, not attached in our namespace */
    int dev;       /* the host's /dev, for loop devices */
    int state;     /* state directory, and below it: */
    int layers;    /* layers/<id>: writable layers */
    int trash;     /* trash: removed layers, deleted in the background */
    int images;    /* templates: empty file systems for disk limits */
    int host_root; /* generated part of the root `host` */
    int points;    /* mount points for images that lack them */
    int guest;     /* program of PID 1, a sealed memfd */
    struct spawn_tree trees[SPAWN_TREES_MAX];
    unsigned n_trees;
    int allowed[SPAWN_ROOTS_MAX]; /* passed directories must be beneath these */
    unsigned n_allowed;
    uint32_t dir_uid; /* owner of the last host directory that was mapped */
    uint32_t dir_gid;
    bool has_dir; /* whether dir_uid and dir_gid are set */
    struct cgroups cg;
    struct net_pool net;
    struct list instances;          /* live instances, also those of an earlier berm-spawn */
    struct map by_id;               /* the same instances, by id */
    uint8_t slots[SPAWN_SLOTS / 8]; /* uid slots of live and dying instances */
    struct list dying;              /* instances with a pending DESTROY */
    void *stack;                    /* stack of the child between clone and exec; one at a time */
    uint64_t reserve_bytes;         /* space of the state file system that is left to the host */
    uint32_t features;
    enum quota_answer quota; /* project quota of the state file system */
    int landlock_abi;
    int last_cap;
    uint32_t masks;      /* from enter_masks_needed; 0: each child checks /proc */
    struct mounts spent; /* left from the last CREATEs; spawn_chores closes them, which is slow */
    struct list held;    /* instances with held descriptors, oldest first */
    unsigned n_held;     /* at most SPAWN_HELD_MAX */
    struct instance *given; /* instance that the current request unparked; see instance_let_go */
    bool is_tied;           /* sandboxes end with this process */
    int trash_wake;         /* a byte here wakes the trash process; -1: none */
    unsigned unseen_ends;   /* SIGCHLDs since all children were checked */
    pid_t trash_pid;        /* trash process; 0: not started, -1: ended */
};

struct spawn_options {
    int state_fd;
    int guest_fd; /* program of PID 1 */
    const int *allowed_fds;
    unsigned n_allowed;
    unsigned net_ahead;
    bool net_once; /* one network namespace and no pool */
    bool is_tied;  /* sandboxes end with this process */
    /* For berm-jail: prepare only what this request needs. NULL: prepare everything. */
    const struct spawn_create *only;
    uint64_t reserve_bytes;
    uint32_t without; /* features to treat as absent, to test fallbacks */
};

/* Returns the feature bit for a name of --without, or 0. */
uint32_t spawn_feature_named(const char *name);

/* Opens the host, builds the templates and enters our own mount namespace. Fails with -errno and a
 * description in *ret_what; then the process must exit. Takes ownership of the descriptors in
 * `o`. */
MUST_USE int spawn_start(struct spawn *s, const struct spawn_options *o, const char **ret_what);

/* Call this last. Removes the cgroups of this state directory if no sandbox is left and no other
 * process uses it. */
void spawn_finish(struct spawn *s);

/* Chores are work that is left for idle times: closing descriptors of past CREATEs, refilling the
 * pool of network namespaces, restarting the trash process. */
bool spawn_has_chores(const struct spawn *s);
void spawn_chores(struct spawn *s);

/* Between these two calls the process is in the host's mount namespace, to clone trees. */
MUST_USE int spawn_enter_host(const struct spawn *s);
MUST_USE int spawn_leave_host(const struct spawn *s);
