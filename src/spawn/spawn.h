/* spawn — what berm-spawn holds from its start on: descriptors of the host, templates, features.
 *
 * At start it opens everything it will ever need of the host, then moves into a mount namespace
 * of its own whose root is one small read-only tmpfs. Every sandbox's mount namespace begins as
 * a copy of that one, so what lies beneath a sandbox's root is empty. Host directories are
 * cloned by going back into the host's mount namespace for the length of one system call;
 * nothing is ever attached there. */
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
/* What is held for each sandbox has numbers from here on, above all that one request needs. */
#define SPAWN_HELD_FD 1024
#define SPAWN_HELD_MAX 128 /* instances; nobody says which of them were given away as they are */

struct instance;

/* A directory of the host that is part of root `host`. */
struct spawn_tree {
    char target[32]; /* where it goes, relative to the root */
    int fd;          /* in the host's mount namespace */
    bool packages;   /* state of the package manager: only where it can be written */
};

/* Every descriptor made while building a root; see mounts_done. */
#define MOUNTS_FDS_MAX 256
#define MOUNTS_SPENT_MAX 64 /* with more than these the next CREATE does not begin */
struct mounts {
    int fds[MOUNTS_FDS_MAX];
    unsigned n_fds;
    bool made_layer; /* it was not there before */
};

struct spawn {
    int self;    /* pidfd of this process */
    int host_ns; /* mount namespaces */
    int own_ns;
    int own_uts;   /* UTS namespace */
    int proc;      /* a full procfs that is attached nowhere we live */
    int dev;       /* the host's /dev, for loop devices */
    int state;     /* the state directory, and below it: */
    int layers;    /*   layers/<id>/…   writable layers */
    int trash;     /*   trash/…         renamed here, deleted in the background */
    int images;    /*   templates/…     empty file systems for disk limits */
    int host_root; /* generated part of root `host` */
    int points;    /* mount points for images that lack them */
    int guest;     /* PID 1's program, a sealed memfd */
    struct spawn_tree trees[SPAWN_TREES_MAX];
    unsigned n_trees;
    int allowed[SPAWN_ROOTS_MAX]; /* directories beneath which passed directories must lie */
    unsigned n_allowed;
    uint32_t dir_uid; /* owner of the last directory from outside that was mapped; */
    uint32_t dir_gid;
    bool has_dir; /* whether there was one */
    struct cgroups cg;
    struct net_pool net;
    struct list instances;          /* that live, whoever made them */
    struct map by_id;               /* the same */
    uint8_t slots[SPAWN_SLOTS / 8]; /* ranges of those and of the dying */
    struct list dying;              /* DESTROY was asked and waits */
    void *stack;                    /* of the child between clone and exec; one at a time */
    uint64_t reserve_bytes;         /* of the state file system, kept free for the host */
    uint32_t features;
    enum quota_answer quota; /* of the state file system */
    int landlock_abi;
    int last_cap;
    uint32_t masks;      /* of /proc: enter_masks_needed; 0: each sandbox looks for itself */
    struct mounts spent; /* of the last CREATEs: closing them takes a while: spawn_chores */
    struct list held;    /* instances for whose claim something is held, oldest first */
    unsigned n_held;     /* SPAWN_HELD_MAX of them at most */
    struct instance
        *given;           /* by the request that is being answered: see instance_let_go; or NULL */
    bool is_tied;         /* sandboxes end with us */
    int trash_wake;       /* a byte here wakes the process that empties the trash; -1 if none */
    unsigned unseen_ends; /* signals of children's ends since all children were looked at */
    pid_t trash_pid;      /* that process; 0 if none was started, -1 if it has ended */
};

struct spawn_options {
    int state_fd;
    int guest_fd; /* PID 1's program */
    const int *allowed_fds;
    unsigned n_allowed;
    unsigned net_ahead;
    bool net_once; /* one network namespace and no pool */
    bool is_tied;  /* sandboxes end with this process */
    /* For a process that makes one sandbox: only what that one needs. NULL: all that any may need. */
    const struct spawn_create *only;
    uint64_t reserve_bytes;
    uint32_t without; /* features to pretend absent, for tests of the fallbacks */
};

/* The feature that --without names; 0 for another name. */
uint32_t spawn_feature_named(const char *name);

/* Opens the host, builds the templates, enters the own mount namespace. -errno, and *ret_what
 * says in words what failed; the process is of no use then. Takes over the descriptors in `o`. */
MUST_USE int spawn_start(struct spawn *s, const struct spawn_options *o, const char **ret_what);

/* The last thing a process does: removes the cgroups of this state where nothing lives in them any
 * more and nobody else works on it. */
void spawn_finish(struct spawn *s);

/* What a CREATE leaves to be done when nobody waits for an answer: spent descriptors are closed, the pool of
 * network namespaces is refilled. */
bool spawn_has_chores(const struct spawn *s);
void spawn_chores(struct spawn *s);

/* Between these two calls the process sees the host's mounts, for cloning trees from
 * descriptors. */
MUST_USE int spawn_enter_host(const struct spawn *s);
MUST_USE int spawn_leave_host(const struct spawn *s);
