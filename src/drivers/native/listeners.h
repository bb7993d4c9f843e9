/* listeners — Unix sockets that somebody listens on, all of them in one answer of the kernel's.
 *
 * Owner:   whoever reads them. A list is as old as its reading: who is in it may have ended since.
 * Only sockets of our own network namespace are told, and only on a file system whose device the kernel
 * names alike to everybody (not so btrfs, nor every overlay): who is not in the list may live all the same.
 * Bounds:  four bytes for each socket on that file system. */
#pragma once

#include <stdbool.h>

struct listeners;

/* Those on the file system of that folder. NULL: the kernel does not tell, or there is no memory. */
struct listeners *listeners_read(int dir_fd);
/* Whether somebody listened on the socket that has this name in the folder now; of NULL nobody. */
bool listeners_has(const struct listeners *l, int dir_fd, const char *name);
void listeners_free(struct listeners *l);
