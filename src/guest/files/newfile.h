/* newfile — contents: opened only where they are a regular file's, and replaced in one step.
 *
 * A new file has no name while it is written, or one that begins with `.berm-` where the filesystem cannot do
 * without; newfile_place gives it its own. All of it is done in a child as the sandbox user. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/err.h"

#define NEWFILE_NAME 32

/* Follows links at the end of a path, so that a write goes where the name leads. The result may not exist. */
MUST_USE int newfile_follow(struct arena *a, char **path, struct err *e);
/* The target as it is now: it may be replaced if its own mode allows writing. *mode becomes its mode. */
MUST_USE int newfile_check(int dir, const char *name, const char *path, bool must_not_exist,
                           mode_t *mode, struct err *e);
/* `ret_name` has NEWFILE_NAME bytes, empty when there is no name. -errno. */
MUST_USE int newfile_open(int dir, char *ret_name);
/* -errno; a temporary name stays then, for the caller to remove. */
MUST_USE int newfile_place(int fd, int dir, const char *temp, const char *name, bool replace);
