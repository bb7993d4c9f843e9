/* disk — limits a writable layer without quotas, by a file system image on a loop device.
 *
 * Writes inside fail with ENOSPC when blocks or inodes run out, and the image is sparse on the
 * host. The empty image of each size is created once, kept as a template, and copied sparsely. */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "spawn/spawn.h"

#define DISK_IMAGE "disk.img"
#define DISK_MIN_BYTES (UINT64_C(4) << 20)
#define DISK_MAX_BYTES (UINT64_C(16) << 40)

/* Mounts the image in `dir`, creating it if absent, and returns a detached mount. The loop device
 * is freed with the last mount. */
MUST_USE int disk_mount(struct spawn *s, int dir, uint64_t bytes, uint64_t inodes);
