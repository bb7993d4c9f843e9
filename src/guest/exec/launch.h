/* launch — starts one program: everything between the guest and execve.
 *
 * With a leaf (a cgroup of the program's own, as a descriptor) the program is the guest's child, born in
 * its cgroup. Without one a shepherd stands between: a copy of the guest that is the reaper of all the
 * program starts, so that its tree is known by parentage alone, and that tells the leader's end.
 *
 * The child shares the guest's memory until execve (vfork), so it allocates nothing and calls nothing but
 * the kernel; the guest waits for that moment, which no program can delay. */
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
    char **paths;    /* candidates for the program, in order; NULL at the end */
    const char *cwd; /* absolute */
    const struct user *user;
    const struct privileges *privileges;
    uint64_t ignored; /* signals the guest ignores, 1 << number - 1: execve would pass that on */
    int stdio[3];
    bool terminal;                   /* stdio[0] becomes the controlling terminal */
    int leaf;                        /* -1: none */
    int cgroups[LAUNCH_CGROUPS_MAX]; /* files to write "0" to */
    size_t n_cgroups;
};

struct launched {
    pid_t pid;      /* of the leader */
    pid_t shepherd; /* 0: none */
    int report;     /* pipe that tells the leader's wait status; -1 without a shepherd */
};

/* What comes through `report` when the leader has ended, twice: before it is reaped and after. */
struct launch_end {
    int wait_status;
    bool is_reaped;
    bool is_alone;          /* known once it is reaped: nothing it started is left */
    uint64_t max_rss_bytes; /* known then too: of the largest process that was reaped so far */
};

/* Nothing is left running on failure. Errors: PROGRAM_NOT_FOUND, PROGRAM_NOT_EXECUTABLE, CWD_NOT_FOUND,
 * LIMIT_REACHED, INVALID_ARGUMENT, INTERNAL. */
MUST_USE int launch_program(const struct launch *l, struct launched *ret, struct err *e);
