/* quota — a writable layer with a real end: a project of the state's file system.
 *
 * Every file beneath the layer's directory counts for its project, whoever makes it, and the kernel
 * refuses what goes beyond. Nobody inside can leave it: outside the first user
 * namespace the kernel changes neither a file's project nor its inheritance. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* What a write beyond the limit answers. */
enum quota_answer {
    QUOTA_NONE,   /* no project quota, or it only counts */
    QUOTA_ENOSPC, /* XFS */
    QUOTA_EDQUOT, /* ext4 */
};
enum quota_answer quota_probe(int state);

/* Gives the empty directory `dir` a project and limits it; `inodes` 0 = as many as a file system of this
 * size would have. -EBUSY when there is no free number. */
MUST_USE int quota_set(int dir, uint64_t bytes, uint64_t inodes);
/* The directory is on its way out: its limits go, so that nothing of them stays in the file system. */
void quota_clear(int dir);
/* Its files count for a project of ours. */
bool quota_is_set(int dir);
