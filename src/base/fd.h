/* fd — file descriptors: CLOEXEC at birth, passed over sockets with a bound, opened beneath a
 * directory.
 *
 * Every function returns -errno on failure and never leaves an fd open behind a failure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

/* What one message may carry; the kernel's own bound is 253. */
#define FD_PASS_MAX 80

/* Sends one message with n_fds descriptors (n_bytes >= 1: a bare descriptor has no message to
 * ride on). */
MUST_USE int fd_send(int sock, const void *bytes, size_t n_bytes, const int *fds, size_t n_fds);

/* Receives one message into `bytes` and its descriptors, CLOEXEC, into `fds`. Returns the
 * length; 0 is the end. A message that is longer than max_bytes or brings more than max_fds
 * descriptors is -EMSGSIZE, and every descriptor that came with it is closed. -EMFILE: the message is
 * there, and all its descriptors are lost, because we may not have so many. */
MUST_USE ssize_t fd_recv(int sock, void *bytes, size_t max_bytes, int *fds, size_t max_fds,
                         size_t *ret_n_fds);

/* Opens `path` beneath `dir`: no symlink, no magic link, no step above `dir`. O_CLOEXEC is
 * added. */
MUST_USE int fd_open_beneath(int dir, const char *path, int flags, mode_t mode);
/* The same in a tree that others write to: what the path names is opened itself, a link not followed and a
 * FIFO not waited for; it may be empty, for `dir`. Works without openat2 too, where the path has no "..". */
MUST_USE int fd_open_entry(int dir, const char *path, int flags);
/* An entry that was seen to be a regular file, to be read; -EXDEV where something is mounted on the way to it or
 * on it, which may be of any sort. Any failure may be this call's alone. */
MUST_USE int fd_open_unmounted(int dir, const char *path);
/* The directory such an entry lies in, and its name there, which points into `path`. */
MUST_USE int fd_open_parent(int dir, const char *path, const char **ret_name);
/* Whether `dir` has an entry of this name, by the effective id (access() goes by the real one). */
bool fd_has_entry(int dir, const char *name);
/* Makes (if absent) and opens a directory beneath `dir`; one component. */
MUST_USE int fd_make_dir(int dir, const char *name, mode_t mode);

/* A memfd that holds the bytes of `source` (from its start) and can never change again. */
MUST_USE int fd_sealed_copy(const char *name, int source);

/* All of it, also where the descriptor does not block. */
MUST_USE int fd_write_all(int fd, const void *bytes, size_t n);
/* Writes `text` to an existing file beneath `dir` in one write, as sysctl and cgroup files want
 * it. */
MUST_USE int fd_write_text(int dir, const char *path, const char *text);
/* Reads a small file beneath `dir` and ends it with NUL. Longer than cap - 1 is -EFBIG. */
MUST_USE ssize_t fd_read_text(int dir, const char *path, char *out, size_t cap);

/* So many can still be opened, and a sixteenth of all, as far as the lowest free one tells; `any` is one that is open. */
bool fd_are_available(int any, unsigned n);
void fd_close_all(int *fds, size_t n);
