/* mounts — builds a sandbox's root in the parent: clones, id mappings and overlays, all detached.
 *
 * The parent builds with the rights of the initial user namespace while the child prepares itself,
 * and passes the result as descriptors. */
#pragma once

#include "base/macros.h"
#include "spawn/enter.h"
#include "spawn/spawn.h"

/* The descriptors of a CREATE by meaning. */
struct mounts_input {
    int image;
    const int *binds;
};

/* How to map the owner of a host directory. A mapping may be prepared for the owner of the host
 * directory that was mapped last. */
struct mounts_owner {
    uint32_t profile;
    uint32_t base; /* first id of the slot */
    int map;       /* prepared mapping; -1: none */
    uint32_t uid;  /* the owner that the prepared mapping maps */
    uint32_t gid;
};
/* Prepares a mapping for the owner of the host directory that was mapped last, because creating a
 * mapping takes longer than the mount. */
void mounts_map_ahead(const struct spawn *s, struct mounts_owner *owner);

/* Fills e->root and e->mounts. `userns` is the child's user namespace. Fails with -errno and
 * *ret_step. */
MUST_USE int mounts_build(struct spawn *s, const struct spawn_create *req,
                          const struct mounts_input *in, int userns, struct enter *e,
                          struct mounts *m, uint32_t *ret_step);
/* Turns host directories into detached mounts for a sandbox of this owner, in order, and stores
 * them in `m`. Fails with -errno and *ret_step. */
MUST_USE int mounts_binds(struct spawn *s, const struct spawn_mount *mounts, unsigned n,
                          const int *dirs, const struct mounts_owner *owner, struct mounts *m,
                          int *ret_binds, uint32_t *ret_step);
/* Closes the descriptors left from building. The kernel waits for every CPU, so call it only when
 * no client waits. */
void mounts_done(struct mounts *m);

/* Returns whether `dir` is beneath a directory that berm-spawn was started with. The caller must be
 * in the host's mount namespace. */
bool mounts_allowed(const struct spawn *s, int dir);
