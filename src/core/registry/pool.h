/* pool — instances made ahead, so that a sandbox is there when it is asked for. They are of the first driver that has
 * parking.
 *
 * Owner:   the registry.
 * A parked instance is of the kind that most sandboxes are: the host's root, profile user, a layer on disk, no
 * network, the daemon's own limits. Its guest runs and has said hello; no program or file of anybody's has
 * been in it. Its id is none that a sandbox can have. It is used once, or not at all.
 * Making:  one at a time, and only while the driver has nothing else to do; ever more rarely while it fails.
 * Restart: no record names a parked instance, so what a crash leaves is swept; its guest ends by itself soon.
 *          At a clean end they are cleared away before the registry reports.
 * Bounds:  sandboxes.parked of them. */
#pragma once

#include "core/sandbox/sandboxes.h"

struct pool;

/* NULL: no memory, or none are to be made. Nothing happens before pool_begin. A pool may be NULL below. */
struct pool *pool_new(struct env *env);
void pool_begin(struct pool *p);
void pool_close(struct pool *p);

/* The oldest, when what is asked for can be made of it. */
bool pool_take(struct pool *p, const Berm__V1__SandboxSpec *spec, struct parked *ret_parked);
/* One that was taken and cannot be used. */
void pool_discard(struct pool *p, const struct parked *parked);
