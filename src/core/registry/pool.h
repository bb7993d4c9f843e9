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

#include "core/registry/registry_impl.h"
#include "core/guest/transcript.h"

#define POOL_WORKSPACE "/workspace" /* the directory that is in every root of ours */

struct guest_link;
struct pool;

/* What its taker owns from then on, and hears of by events of its own. */
struct parked {
    struct instance *instance;
    struct guest_link *link;
    struct transcript *transcript; /* what was said so far */
    uint64_t slot;
    char name[INSTANCE_ID_MAX]; /* of its host; a sandbox whose asker leaves that to us gets it */
};

/* NULL: no memory, or none are to be made. Nothing happens before pool_begin. A pool may be NULL below. */
struct pool *pool_new(struct registry *r);
void pool_begin(struct pool *p);
void pool_close(struct pool *p);

/* The oldest, when what is asked for can be made of it. */
bool pool_take(struct pool *p, const Berm__V1__SandboxSpec *spec, struct parked *ret_parked);
/* One that was taken and cannot be used. */
void pool_discard(struct pool *p, const struct parked *parked);
/* Leaves of a sandbox's limits those that are not a parked instance's already; the others are 0. */
void pool_keep_limits(const struct pool *p, struct instance_limits *limits);
