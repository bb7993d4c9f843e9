/* launch — starts one program: everything between the guest and execve.
 *
 * With an exec cgroup, the program is a child of the guest and starts inside that cgroup. Without one, a
 * shepherd process stands between guest and program. The shepherd is a fork of the guest and the subreaper of
 * everything that the program starts, so parentage alone identifies the process tree. The shepherd reports
 * the leader's exit.
 *
 * Until execve the child shares the memory of its parent (vfork). The child therefore allocates nothing and
 * makes system calls only. The parent blocks until execve; no program can delay that. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "guest/user.h"

#define LAUNCH_CGROUPS_MAX 7

struct launch {
    char **argv;
    char **env;
    char **paths;    /* where the program may be, in order of preference; NULL at the end */
    const char *cwd; /* absolute path */
    const struct user *user;
    const struct privileges *privileges;
    uint64_t
        ignored; /* bit N-1: the guest ignores signal N, which the child resets before execve */
    int stdio[3];
    bool terminal;   /* stdio[0] becomes the controlling terminal */
    int exec_cgroup; /* directory of the exec cgroup in the v2 tree; -1: none */
    int cgroup_files[LAUNCH_CGROUPS_MAX]; /* the child writes "0" to each to join its cgroup */
    size_t n_cgroup_files;
};

struct launched {
    pid_t pid;      /* pid of the leader */
    pid_t shepherd; /* pid of the shepherd; 0: no shepherd */
    int report;     /* read end of the shepherd's pipe (struct launch_end); -1 without a shepherd */
};

/* A shepherd sends this twice when the leader has exited: before it reaps the leader, and after. */
struct launch_end {
    int wait_status;
    bool is_reaped;
    bool is_alone;          /* set in the second report: the leader left no process behind */
    uint64_t max_rss_bytes; /* set in the second report: peak of the largest reaped process */
};

/* Starts the program. On failure no process is left. Errors: PROGRAM_NOT_FOUND,
 * PROGRAM_NOT_EXECUTABLE, CWD_NOT_FOUND, LIMIT_REACHED, INVALID_ARGUMENT, INTERNAL. */
MUST_USE int launch_program(const struct launch *l, struct launched *ret, struct err *e);
