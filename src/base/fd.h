/* fd — file descriptors: create them with CLOEXEC, pass them over sockets, open them beneath a
 * directory.
 *
 * Every function returns -errno on failure and leaks no descriptor when it fails. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

/* The maximum number of descriptors in one message. The kernel's own limit is 253. */
#define FD_PASS_MAX 80

/* Sends one message with n_fds descriptors. n_bytes must be at least 1, because a socket cannot
 * carry descriptors without data. */
MUST_USE int fd_send(int sock, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds);

/* Receives one message into `bytes` and its descriptors, with CLOEXEC, into `fds`. Returns the
 * length, or 0 at end of stream. Fails with -EMSGSIZE, and closes all received descriptors, when
 * the message is longer than max_bytes or has more than max_fds descriptors. Fails with -EMFILE
 * when this process has too many descriptors open: `bytes` is filled, but the message's descriptors
 * are lost. */
MUST_USE ssize_t fd_recv(int sock, void *bytes, size_t max_bytes, int *fds, size_t max_fds,
                         size_t *ret_n_fds);

/* Opens `path` beneath `dir`. Refuses symlinks, magic links and any path that leaves `dir`. Adds
 * O_CLOEXEC. */
MUST_USE int fd_open_beneath(int dir, const char *path, int flags, mode_t mode);
/* Opens `path` in a tree that others write to: does not follow a final symlink and does not block
 * on a FIFO. An empty path opens `dir` itself. Also works on kernels without openat2, for paths
 * without "..". */
MUST_USE int fd_open_entry(int dir, const char *path, int flags);
/* Opens for reading an entry that was last seen as a regular file. Fails with -EXDEV when a mount
 * point is on the path, because the mounted file can be of any type. After a failure the caller
 * must try fd_open_entry, which has fewer restrictions. */
MUST_USE int fd_open_unmounted(int dir, const char *path);
/* Opens the parent directory of the entry `path`. ret_name points to the last name in `path`. */
MUST_USE int fd_open_parent(int dir, const char *path, const char **ret_name);
/* Returns whether `dir` has an entry of this name. Unlike access(), uses the effective user id. */
bool fd_has_entry(int dir, const char *name);
/* Creates a directory in `dir` if it is absent, and opens it. `name` is a single component. */
MUST_USE int fd_make_dir(int dir, const char *name, mode_t mode);

/* Creates a sealed, immutable memfd with a copy of `source`, read from its start. */
MUST_USE int fd_sealed_copy(const char *name, int source);

/* Writes all bytes. Waits when a non-blocking descriptor is full. */
MUST_USE int fd_write_all(int fd, const void *bytes, size_t n);
/* Writes `text` to an existing file beneath `dir` in a single write, which sysctl and cgroup files
 * require. */
MUST_USE int fd_write_text(int dir, const char *path, const char *text);
/* Reads a small file beneath `dir` and appends a NUL. Fails with -EFBIG when the file is longer
 * than cap - 1. */
MUST_USE ssize_t fd_read_text(int dir, const char *path, char *out, size_t cap);

/* Returns whether n descriptors can still be opened and 1/16 of the descriptor limit is still free.
 * This is an estimate from the lowest free descriptor number. `any` is an open descriptor. */
bool fd_are_available(int any, unsigned n);
void fd_close_all(int *fds, size_t n);
