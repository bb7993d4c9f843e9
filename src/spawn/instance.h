/* instance — one sandbox in berm-spawn: created, found by id, destroyed.
 *
 * Owner:   struct spawn: in `instances` while alive, in `dying` while a DESTROY is pending.
 * States:  parked → claimed → dying → freed; an instance that is not created as parked starts as claimed.
 * Restart: restored from the cgroups: their names are the ids, their owners give the uid slots. The
 *          wait status is unknown then, because the sandboxes are not children of the new
 *          berm-spawn. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "spawn/mounts.h"
#include "spawn/spawn.h"

struct instance {
    struct list node;
    struct map_node by_id; /* in spawn.by_id while the instance is alive */
    char id[SPAWN_ID_MAX];
    uint32_t slot;             /* SPAWN_SLOTS: unknown, because the instance had no cgroup */
    bool is_parked;            /* accepts one CLAIM, which uses the next three members */
    struct list in_held;       /* in spawn.held while descriptors are held */
    struct cgroup_knobs knobs; /* open limit files */
    struct mounts_owner owner; /* id mapping for mounted directories */
    pid_t pid;                 /* -1: child of another berm-spawn */
    int wait_status;           /* -1 until reaped */
    uint32_t seq;              /* of the pending DESTROY */
    uint32_t flags;            /* of the pending DESTROY */
    bool is_swept;             /* SWEEP destroys the instance, so no reply is sent */
    int64_t since_ms;          /* when the DESTROY arrived */
    int mnt_ns;                /* held so that PID 1's exit does not wait for unmounting; or -1 */
    unsigned looks;            /* how often instance_finish found it alive */
};

/* Restores running instances at the start, with their ids and uid slots. */
MUST_USE int instances_restore(struct spawn *s);

/* Checks the request, builds the instance, and waits until PID 1's program runs. On success the
 * caller owns *ret_pidfd. On failure sets error, step and missing in the reply, and leaves nothing
 * behind. Does not close `fds`. Call spawn_chores when idle after the reply. */
void instance_create(struct spawn *s, const struct spawn_create *req, const int *fds, size_t n_fds,
                     struct spawn_reply *reply, int *ret_pidfd);

/* Returns a live instance, or NULL. */
struct instance *instance_find(const struct spawn *s, const char *id);

/* Marks the instance as used, so that no CLAIM is accepted. instance_let_go closes the descriptors
 * held for the claim, after the reply. */
void instance_unpark(struct spawn *s, struct instance *p);
void instance_let_go(struct spawn *s);

/* In claim.c. Sets name, limits and mounts of a parked instance, and error, step and missing in the
 * reply. Does not close `fds`; mounts_done(&s->spent) frees what it used, as after a CREATE. */
void instance_claim(struct spawn *s, const struct spawn_claim *req, const int *fds, size_t n_fds,
                    struct spawn_reply *reply);

/* Kills the instance; instance_finish reports when it is gone. Returns NULL when out of memory. */
struct instance *instance_destroy(struct spawn *s, const struct spawn_destroy *req);
/* Returns true when the instance is gone and the request is complete. The caller reads wait_status,
 * then frees it. Sets *ret_error and *ret_step on failure. */
bool instance_finish(struct spawn *s, struct instance *p, int *ret_error, uint32_t *ret_step);
void instance_free(struct spawn *s, struct instance *p);

/* Reap ended children: PID 1s and helpers. Never block. To find any ended child, the kernel visits
 * all children, so instance_reap waits only for the pid that a signal named. Several exits may
 * share a signal; instance_reap_all, which runs when idle, finds the others. */
void instance_reap(struct spawn *s, pid_t pid);
void instance_reap_all(struct spawn *s);
