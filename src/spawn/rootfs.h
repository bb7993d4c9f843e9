/* rootfs — the generated part of root `host`: everything but the read-only trees.
 *
 * A directory roots/host-<stamp> on the state file system, made once per state of the host's
 * /etc and shared by all sandboxes as the lowest layer. It takes from the host's /etc only what
 * the table names, and of that only what every local user may read; accounts and names are
 * written anew. */
#pragma once

#include "base/macros.h"

#define ROOTFS_PEOPLE \
    1000 /* ids from here on are people's: they have no account and no file inside */
#define ROOTFS_NOBODY 65534 /* but for this one */

/* Both are directories beneath `state`, opened; `trees` are the names that are mounted, not
 * copied. */
MUST_USE int rootfs_host(int state, const char *const *trees, int *ret_dir);
MUST_USE int rootfs_points(int state, int *ret_dir);
