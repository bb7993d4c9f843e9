/* newfile — replaces a file atomically. Runs in a child, as the sandbox user.
 *
 * The new file has no name while it is written. On a filesystem without unnamed files it has a temporary name
 * that starts with `.berm-`. newfile_place gives the file its final name. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"

#define NEWFILE_NAME 32

/* Resolves symlinks at the end of a path, so that a write changes their target. The target may not exist.
 * The result is in the arena. */
MUST_USE int newfile_follow(struct arena *a, char **path, struct err *e);
/* Checks that the target may be replaced: it does not exist, or it is a writable regular file,
 * whose mode is stored in *mode. Fails with FILE_EXISTS, IS_A_DIRECTORY, NOT_A_REGULAR_FILE or
 * FILE_DENIED. */
MUST_USE int newfile_check(int dir, const char *name, const char *path, bool must_not_exist,
                           mode_t *mode, struct err *e);
/* Creates the file. `ret_name` has NEWFILE_NAME bytes; it becomes empty for an unnamed file. Fails
 * with -errno. */
MUST_USE int newfile_open(int dir, char *ret_name);
/* Gives the file its final name. Fails with -errno; then the caller removes the temporary name. */
MUST_USE int newfile_place(int fd, int dir, const char *temp, const char *name, bool replace);
