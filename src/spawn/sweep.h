/* sweep — removes what has no owner: cgroups with everything in them, and writable layers. */
#pragma once

#include "base/list.h"
#include "base/macros.h"
#include "base/map.h"
#include "spawn/spawn.h"

/* The ids that have an owner, as the messages of a SWEEP name them. */
struct sweep_owned {
    struct list parts;
    struct map ids;
};
void sweep_init(struct sweep_owned *owned);

/* Remembers the ids of one message as owned. -EINVAL for a bad id, -E2BIG over a million. */
MUST_USE int sweep_add(struct sweep_owned *owned, const struct spawn_sweep *req);
/* Removes the rest; returns how many ids were not owned. */
uint32_t sweep_run(struct spawn *s, const struct sweep_owned *owned);
/* Removes generated roots of earlier states of the host's /etc, once no sandbox stands on one. */
void sweep_roots(struct spawn *s);
void sweep_clear(struct sweep_owned *owned);
