/* enter — turns a fresh clone into PID 1: applies the protections in order, then executes the
 * program.
 *
 * The child shares the parent's memory and descriptors until its last steps, and both communicate
 * through this struct. Each field is written by one side before the other reads it; `phase` and
 * `tid` are futexes. The parent must not touch the struct or its descriptors until enter_wait
 * returns. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "spawn/cgroup.h"
#include "spawn/request.h"

#define ENTER_MOUNTS_MAX (SPAWN_MOUNTS_MAX + 12)

enum enter_phase { ENTER_WAIT, ENTER_MAPPED, ENTER_MOUNTS, ENTER_ABORT };

/* A detached mount and its target, relative to the new root. */
struct enter_mount {
    int fd;
    const char *target;
    bool make; /* create the mount point if it is absent */
};

struct enter {
    /* Set before the clone. */
    struct cgroup_seat seat;
    int parent;     /* pidfd of the process that creates the sandbox */
    int proc;       /* a full procfs, for sandboxes whose own procfs shows only processes */
    uint32_t masks; /* from enter_masks_needed, or 0 */
    int guest;      /* program of PID 1 */
    int control;    /* descriptor 3 of PID 1, or -1 */
    int stdio[3];   /* -1: the sandbox's /dev/null */
    uint32_t flags; /* enum spawn_create_flags */
    uint64_t caps;
    int last_cap;
    bool landlock;
    bool is_tied;        /* the sandbox ends with the process that created it */
    bool no_marks;       /* a host directory is writable, so forbid setuid and setgid bits */
    uint64_t file_bytes; /* size limit of a file; 0: no limit */
    const char *hostname;
    const char *const *argv;
    const char *const *env;
    /* Set before phase ENTER_MOUNTS. */
    int root;
    struct enter_mount mounts[ENTER_MOUNTS_MAX];
    unsigned n_mounts;
    /* Used by both sides. */
    int phase; /* enum enter_phase */
    int tid;   /* futex; the kernel clears it when the child has called exec or exited */
    /* Set by the child. */
    int sys;       /* detached /sys; the parent closes `sys` and `sysctl` */
    int sysctl;    /* directory of the namespace limits */
    uint32_t step; /* current or last step */
    int error;     /* errno of that step; 0 if the child reached exec */
};

/* Clones the child into new namespaces on `stack`. Returns its pid and pidfd. */
MUST_USE int enter_clone(struct enter *e, void *stack, size_t stack_bytes, int *ret_pidfd);
void enter_release(struct enter *e, enum enter_phase phase);
/* Waits until the child executes PID 1's program or fails. Returns 0, or -errno with e->step. */
MUST_USE int enter_wait(struct enter *e);
