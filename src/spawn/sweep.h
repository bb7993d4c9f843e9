/* sweep — removes cgroups, with their processes, and writable layers that no client owns. */
#pragma once

#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "spawn/spawn.h"

/* The owned ids, collected from the messages of a SWEEP. */
struct sweep_owned {
    struct list parts;
    struct map ids;
};
void sweep_init(struct sweep_owned *owned);

/* Adds the ids of one message. Fails with -EINVAL for an invalid id, -E2BIG over a million ids. */
MUST_USE int sweep_add(struct sweep_owned *owned, const struct spawn_sweep *req);
/* Removes everything that belongs to no owned id. Returns the number of ids that were not owned. */
uint32_t sweep_run(struct spawn *s, const struct sweep_owned *owned);
/* Removes generated roots of older versions of the host's /etc when no sandbox uses them. */
void sweep_roots(struct spawn *s);
void sweep_clear(struct sweep_owned *owned);
