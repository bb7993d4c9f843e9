/* disk_space — free bytes and inodes of a file system, compared with a reserve.
 *
 * The caller gives the reserve in bytes. disk_space computes the share of all bytes that this is,
 * and reserves the same share of all inodes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "base/macros.h"

struct disk_space {
    uint64_t bytes, bytes_kept;
    uint64_t files, files_kept; /* `files` is UINT64_MAX when the file system has no inode limit */
};

/* Fails with -errno when the file system does not report its free space. */
MUST_USE int disk_space_read(int fd, uint64_t reserve, struct disk_space *ret);
struct disk_space disk_space_of(const struct statvfs *v, uint64_t reserve);
bool disk_space_is_short(const struct disk_space *r);
/* Returns true when at least 9/8 of the reserve is free. */
bool disk_space_is_ample(const struct disk_space *r);
