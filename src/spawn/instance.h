/* instance — one sandbox as berm-spawn knows it: made, found by id, destroyed.
 *
 * Owner:   struct spawn (instances while alive, dying while a DESTROY waits).
 * Restart: read back from the cgroups, whose names are the ids and whose owners tell the ranges. A
 *          new berm-spawn only lacks the wait status, since the sandboxes are not its children. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "spawn/mounts.h"
#include "spawn/spawn.h"

struct instance {
    struct list node;
    struct map_node by_id; /* while it lives */
    char id[SPAWN_ID_MAX];
    uint32_t slot;             /* SPAWN_SLOTS: not known, nothing of it was there */
    bool is_parked;            /* may be given one CLAIM: */
    struct list in_held;       /* of struct spawn, while these hold descriptors */
    struct cgroup_knobs knobs; /* of its limits */
    struct mounts_owner owner; /* of the directories that come with it */
    pid_t pid;                 /* -1: another berm-spawn's child */
    int wait_status;           /* -1 until reaped */
    uint32_t seq;              /* of the DESTROY that waits */
    uint32_t flags;            /* of that DESTROY */
    bool is_swept;             /* nobody waits for an answer */
    int64_t since_ms;          /* when the DESTROY came */
    int mnt_ns;     /* held so that PID 1's end need not wait until its mounts are gone; or -1 */
    unsigned looks; /* how often it was still not over */
};

/* At the start: what lives already keeps its id and its range. */
MUST_USE int instances_restore(struct spawn *s);

/* Checks, builds, waits until PID 1's program runs. On success *ret_pidfd is the caller's. On
 * failure the reply's error, step and missing are set, and nothing is left. Does not close
 * `fds`. Call spawn_chores when the asker has been answered and there is time. */
void instance_create(struct spawn *s, const struct spawn_create *req, const int *fds, size_t n_fds,
                     struct spawn_reply *reply, int *ret_pidfd);

/* One that lives, or NULL. */
struct instance *instance_find(const struct spawn *s, const char *id);

/* It is somebody's from now on, and no CLAIM comes any more. What was held for that is closed by instance_let_go,
 * when the asker has been answered. */
void instance_unpark(struct spawn *s, struct instance *p);
void instance_let_go(struct spawn *s);

/* claim.c: name, limits and mounts for a parked one. The reply's error, step and missing are set. Does
 * not close `fds`, and leaves to mounts_done(&s->spent) what CREATE leaves to it. */
void instance_claim(struct spawn *s, const struct spawn_claim *req, const int *fds, size_t n_fds,
                    struct spawn_reply *reply);

/* Kills and begins to wait; instance_finish tells when it is over. NULL when memory is short. */
struct instance *instance_destroy(struct spawn *s, const struct spawn_destroy *req);
/* True when the instance is gone, with everything the request asked for; the caller frees it after
 * reading wait_status. *ret_error and *ret_step are set when it ended in failure. */
bool instance_finish(struct spawn *s, struct instance *p, int *ret_error, uint32_t *ret_step);
void instance_free(struct spawn *s, struct instance *p);

/* Waits for children that ended: PID 1s, helpers. Never blocks. Asked who ended, the kernel looks at every child,
 * so the first waits for the one that a signal named. Several ends may share a signal: what is left of those is
 * for the second, a chore. */
void instance_reap(struct spawn *s, pid_t pid);
void instance_reap_all(struct spawn *s);
