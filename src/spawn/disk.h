/* disk — a writable layer with a real end where no quota gives one: a file system image on a loop
 * device.
 *
 * Blocks and inodes run out with ENOSPC inside while the host's file system stays sparse. The empty
 * image of each size is made once, kept as a template and copied sparsely. */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "spawn/spawn.h"

#define DISK_IMAGE "disk.img"
#define DISK_MIN_BYTES (UINT64_C(4) << 20)
#define DISK_MAX_BYTES (UINT64_C(16) << 40)

/* Mounts the image in `dir`, made first if absent: a detached mount. The loop device frees
 * itself when the last mount goes. */
MUST_USE int disk_mount(struct spawn *s, int dir, uint64_t bytes, uint64_t inodes);
