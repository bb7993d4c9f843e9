/* room — what is free on a file system beyond a reserve: bytes, and files where it can have only so many.
 *
 * The reserve is given in bytes; it keeps the same share of the files as of the bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/statvfs.h>

#include "base/macros.h"

struct disk_space {
    uint64_t bytes, bytes_kept;
    uint64_t files, files_kept; /* UINT64_MAX free: as many as there are bytes for */
};

/* -errno: it does not tell. */
MUST_USE int disk_space_read(int fd, uint64_t reserve, struct disk_space *ret);
struct disk_space disk_space_of(const struct statvfs *v, uint64_t reserve);
bool disk_space_is_short(const struct disk_space *r);
/* There is an eighth more than the reserve. */
bool disk_space_is_ample(const struct disk_space *r);
