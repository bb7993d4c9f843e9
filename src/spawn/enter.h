/* enter — from a fresh clone to PID 1: the ordered list of protections, then exec.
 *
 * The child shares the parent's memory and descriptors until its last steps, so the two talk
 * through this struct. Everything in it is written by one side before the other reads it
 * (`phase` and `tid` are futexes). The parent must not touch it or its descriptors until
 * enter_wait returns. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "spawn/cgroup.h"
#include "spawn/request.h"

#define ENTER_MOUNTS_MAX (SPAWN_MOUNTS_MAX + 12)

enum enter_phase { ENTER_WAIT, ENTER_MAPPED, ENTER_MOUNTS, ENTER_ABORT };

/* A detached mount and where it goes, relative to the new root. */
struct enter_mount {
    int fd;
    const char *target;
    bool make; /* the mount point may have to be made */
};

struct enter {
    /* Set before the clone. */
    struct cgroup_seat seat;
    int parent;     /* pidfd of the process that makes the sandbox */
    int proc;       /* a full procfs, for a sandbox whose own shows processes only */
    uint32_t masks; /* of enter_masks_needed, or 0 */
    int guest;      /* PID 1's program */
    int control;    /* its descriptor 3, or -1 */
    int stdio[3];   /* or -1: the sandbox's /dev/null */
    uint32_t flags; /* enum spawn_create_flags */
    uint64_t caps;
    int last_cap;
    bool landlock;
    bool is_tied;        /* ends with the process that made it */
    bool no_marks;       /* a directory of the host can be written: no setuid, no setgid */
    uint64_t file_bytes; /* largest file, 0 = no limit */
    const char *hostname;
    const char *const *argv;
    const char *const *env;
    /* Set before phase ENTER_MOUNTS. */
    int root;
    struct enter_mount mounts[ENTER_MOUNTS_MAX];
    unsigned n_mounts;
    /* Both sides. */
    int phase; /* enum enter_phase */
    int tid;   /* the kernel clears it when the child has gone: into exec, or for good */
    /* Set by the child. */
    int sys;       /* its detached /sys; like the next, left for the parent to close */
    int sysctl;    /* where the limits on its namespaces are set */
    uint32_t step; /* where it is, or stopped */
    int error;     /* errno, 0 if it reached exec */
};

/* Clones the child into new namespaces on `stack`. Returns its pid, and its pidfd. */
MUST_USE int enter_clone(struct enter *e, void *stack, size_t stack_bytes, int *ret_pidfd);
void enter_release(struct enter *e, enum enter_phase phase);
/* Waits until the child runs PID 1's program or has failed: 0, or -errno with e->step. */
MUST_USE int enter_wait(struct enter *e);
