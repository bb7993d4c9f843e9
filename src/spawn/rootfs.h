/* rootfs — the generated part of the root `host`: everything except the read-only trees.
 *
 * The root is the directory roots/host-<stamp> in the state file system, generated once per version
 * of the host's /etc. All sandboxes share it as their lowest layer. It contains only the entries of
 * /etc that the table lists and that every local user can read. Accounts and host names are
 * generated. */
#pragma once

#include "base/macros.h"

#define ROOTFS_PEOPLE \
    1000 /* ids from here on belong to people, who have no accounts and files inside */
#define ROOTFS_NOBODY 65534 /* the exception: nobody is not a person */

/* Both return a directory beneath `state`. `trees` are the directories that are mounted, not
 * copied. */
MUST_USE int rootfs_host(int state, const char *const *trees, int *ret_dir);
MUST_USE int rootfs_points(int state, int *ret_dir);
