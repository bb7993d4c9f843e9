/* tree — every process of a program, to signal it or to see that it is gone.
 *
 * With a leaf the cgroup lists them. Without one they are what descends from the shepherd, read from
 * /proc in one pass; a process cannot leave its shepherd, but it can be missed while it forks, so a kill
 * is repeated until nobody is left.
 * Bounds: one pass looks at TREE_MAX processes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define TREE_MAX 16384

struct tree {
    int leaf;       /* owned; -1: none */
    pid_t leader;   /* 0 once it is reaped: its number may be another's */
    pid_t shepherd; /* 0: none, or gone with all below it */
    bool is_empty;  /* seen so after the leader's end: nobody is left who could start another */
};

void tree_done(struct tree *t);
/* Signals everyone; returns how many there were, or -errno. */
int tree_signal(const struct tree *t, int sig);
/* SIGKILL to everyone by the quickest way there is; call again until tree_is_empty. */
void tree_kill(const struct tree *t);
bool tree_is_empty(struct tree *t);
/* Whether the kernel killed a process of the leaf for want of memory. */
bool tree_was_out_of_memory(const struct tree *t);
