/* options — the command line of berm-jail, converted to the request that bermd would send. */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "spawn/request.h"
#include "spawn/spawn.h"

/* The lower half of the slots is for sandboxes that are not kept. Kept sandboxes get a slot of the
 * upper half by name. */
#define JAIL_SLOTS (SPAWN_SLOTS / 2)

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

/* Passes PID 1 this socket, over which it sends the terminal, instead of descriptors 0, 1 and 2. */
void jail_options_link(struct jail_options *o, int link);

/* Returns 0 to run, > 0 after printing help, < 0 after reporting an error. */
MUST_USE int jail_options_read(int argc, char **argv, struct jail_options *o);
