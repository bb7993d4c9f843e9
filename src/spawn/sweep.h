/* sweep — removes what has no owner: cgroups with everything in them, and writable layers. */
#pragma once

#include "base/list.h"
#include "base/macros.h"
#include "spawn/spawn.h"

/* Remembers the ids of one message as owned. -EINVAL for a bad id, -E2BIG over a million. */
MUST_USE int sweep_add(struct list *owned, unsigned *n_owned, const struct spawn_sweep *req);
/* Removes the rest; returns how many ids were not owned. */
uint32_t sweep_run(struct spawn *s, struct list *owned);
/* Removes generated roots of earlier states of the host's /etc, once no sandbox stands on one. */
void sweep_roots(struct spawn *s);
void sweep_clear(struct list *owned, unsigned *n_owned);
