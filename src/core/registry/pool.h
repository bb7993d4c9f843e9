/* pool — parked instances, created ahead of requests, on the first driver that has parking.
 *
 * Owner:   the registry.
 * Kind:    a parked instance has the host's root, profile user, a layer on disk, no network and the
 *          daemon's default limits. Its guest runs and was greeted; no exec or file of a caller was
 *          ever in it. Its id is not a valid sandbox id. It is claimed at most once.
 * Refill:  one create at a time, and only while the driver is idle. Each failure doubles the pause
 *          before the next create.
 * Restart: no record names a parked instance, so the sweep removes those that a crash leaves; their
 *          guests end when their lease expires. A clean shutdown clears the pool before the
 *          registry reports.
 * Bounds:  sandboxes.parked instances. */
#pragma once

#include "core/sandbox/sandboxes.h"

struct pool;

/* Returns NULL if there is no memory or the pool is disabled. The functions below accept NULL.
 * pool_begin starts the refill. */
struct pool *pool_new(struct env *env);
void pool_begin(struct pool *p);
void pool_close(struct pool *p);

/* Takes the oldest parked instance, if it fits the spec. */
bool pool_take(struct pool *p, const Berm__V1__SandboxSpec *spec, struct parked *ret_parked);
/* Discards an instance that pool_take returned and that cannot be used. */
void pool_discard(struct pool *p, const struct parked *parked);
