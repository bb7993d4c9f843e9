/* listeners — a snapshot of all listening Unix sockets on one filesystem, read with one netlink
 * dump (unix_diag).
 *
 * Owner:   the caller of listeners_read.     End: listeners_free.
 * Limits:  a process in the snapshot may have exited since. A missing socket may still have a
 *          listener: the kernel lists only our own network namespace, and on btrfs and some
 *          overlays it reports another device number than stat.
 * Bounds:  four bytes per socket on that filesystem. */
#pragma once

#include <stdbool.h>

struct listeners;

/* Lists the listening sockets on the filesystem of the directory. Returns NULL when the kernel has
 * no unix_diag or memory runs out. */
struct listeners *listeners_read(int dir_fd);
/* Looks up the socket that currently has this name in the directory. Returns whether the snapshot
 * contains it; false if `l` is NULL. */
bool listeners_has(const struct listeners *l, int dir_fd, const char *name);
void listeners_free(struct listeners *l);
