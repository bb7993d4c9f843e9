/* tree — every process of an exec, to signal them or to see that all are gone.
 *
 * With an exec cgroup, the cgroup lists the processes. Without one, they are the descendants of the shepherd,
 * read from /proc in one pass. A process cannot leave its shepherd, but a pass can miss one that forks, so
 * the caller repeats a kill until the tree is empty.
 * Bounds: one pass looks at TREE_MAX processes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define TREE_MAX 16384

struct tree {
    int cgroup;     /* the exec cgroup, owned; -1: none */
    pid_t leader;   /* 0 once reaped, because the kernel may reuse the number */
    pid_t shepherd; /* 0: no shepherd, or it exited after all processes below it */
    bool is_empty;  /* no process was left after the leader's exit, so none can start */
};

void tree_done(struct tree *t);
/* Signals every process. Returns the number of processes, or -errno. */
int tree_signal(const struct tree *t, int sig);
/* Sends SIGKILL to every process in the fastest way. Repeat until tree_check_empty returns true. */
void tree_kill(const struct tree *t);
/* Returns whether no process is left, and caches that in t->is_empty once the leader exited. */
bool tree_check_empty(struct tree *t);
/* Returns whether the kernel killed a process of the exec cgroup because memory ran out. */
bool tree_was_out_of_memory(const struct tree *t);
