/* mounts — the parent's half of a root: clones, id mappings, overlays, all detached.
 *
 * Built with the rights of the initial user namespace while the child prepares itself, then
 * handed over as descriptors. */
#pragma once

#include "base/macros.h"
#include "spawn/enter.h"
#include "spawn/spawn.h"

/* The descriptors of a CREATE, by meaning. */
struct mounts_input {
    int image;
    const int *binds;
};

/* Whom a directory's owner outside is inside; a mapping made ahead is for the owner of the last one. */
struct mounts_owner {
    uint32_t profile;
    uint32_t base; /* of the range */
    int map;       /* -1: none was made ahead */
    uint32_t uid;  /* whom it is for */
    uint32_t gid;
};
/* Makes that mapping, if there was a last one: making one takes longer than the mount itself. */
void mounts_map_ahead(const struct spawn *s, struct mounts_owner *owner);

/* Fills e->root and e->mounts. `userns` is the child's. -errno with *ret_step. */
MUST_USE int mounts_build(struct spawn *s, const struct spawn_create *req,
                          const struct mounts_input *in, int userns, struct enter *e,
                          struct mounts *m, uint32_t *ret_step);
/* Directories from outside as detached mounts of a sandbox of this profile and range, in their order; they
 * are kept in `m`. -errno with *ret_step. */
MUST_USE int mounts_binds(struct spawn *s, const struct spawn_mount *mounts, unsigned n,
                          const int *dirs, const struct mounts_owner *owner, struct mounts *m,
                          int *ret_binds, uint32_t *ret_step);
/* Closes what building has left. The kernel waits for every CPU meanwhile, so not while somebody waits
 * for us. */
void mounts_done(struct mounts *m);

/* Whether `dir` lies beneath one of the directories berm-spawn was started with. The caller
 * stands in the host's mount namespace. */
bool mounts_allowed(const struct spawn *s, int dir);
