/* options — the command line of berm-jail, turned into the same request that bermd would send. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "spawn/request.h"
#include "spawn/spawn.h"

#define JAIL_SLOTS (SPAWN_SLOTS / 2) /* ranges for what is not kept; the others go by name */

struct jail_options {
    struct spawn_create *req;
    int fds[4 + SPAWN_MOUNTS_MAX];
    size_t n_fds;
    int allowed[1];
    unsigned n_allowed;
    int state_fd;
    uint32_t without;
    bool keep;
};

/* PID 1 gets this socket, to send a terminal out, and not our 0, 1 and 2. */
void jail_options_link(struct jail_options *o, int link);

/* 0: run; > 0: there was only help to give; < 0: a mistake, already told. */
MUST_USE int jail_options_read(int argc, char **argv, struct jail_options *o);
