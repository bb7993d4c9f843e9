/* quota — limits a writable layer through a project quota of the state file system.
 *
 * Every file beneath the layer's directory counts for its project, whoever creates it, and the
 * kernel enforces the limit. A sandbox cannot leave its project: outside the initial user
 * namespace, the kernel allows no change of a file's project or of its inheritance. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* Which error a write beyond the limit gets. */
enum quota_answer {
    QUOTA_NONE,   /* no project quota, or only accounting */
    QUOTA_ENOSPC, /* XFS */
    QUOTA_EDQUOT, /* ext4 */
};
enum quota_answer quota_probe(int state);

/* Gives the empty directory `dir` a project with limits. `inodes` 0 chooses the number that a file
 * system of this size would have. Fails with -EBUSY when no free project is found. */
MUST_USE int quota_set(int dir, uint64_t bytes, uint64_t inodes);
/* Removes the limits before the directory is deleted, so that no record of them stays. */
void quota_clear(int dir);
/* Returns whether the directory has a project of ours. */
bool quota_is_set(int dir);
