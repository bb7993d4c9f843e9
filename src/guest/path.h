/* path — paths inside the sandbox: checked as text first, then resolved by the kernel.
 *
 * Bounds: PATH_LENGTH_MAX bytes, PATH_NAME_MAX per name, no NUL, and no `..` that leaves the start of the
 *         path. openat2 resolves symlinks, mounts and races, with the root of the sandbox as its root.
 * Work in a child of the guest uses these functions, as the sandbox user. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#define PATH_LENGTH_MAX 4095
#define PATH_NAME_MAX 255

/* Reads the member `name` or `name`_b64 (exactly one must be present) and makes it absolute: a relative path
 * starts at the workspace. The result is in the arena and ends with NUL. */
MUST_USE int path_param(const struct json *params, const char *name, const char *workspace,
                        struct arena *a, char **ret, struct err *e);
/* Does the same for a string. `field` is the name of the string in errors. */
MUST_USE int path_absolute(struct str path, const char *field, const char *workspace,
                           struct arena *a, char **ret, struct err *e);

/* Opens with openat2 beneath `/`, refuses magic links, and adds O_CLOEXEC, O_NOCTTY and O_NONBLOCK.
 * Fails with -errno. */
MUST_USE int path_open(const char *path, int flags, mode_t mode);
/* Opens the directory that contains the last name of a path. Removes trailing slashes from `path`;
 * ret_name points into it. Fails with -EINVAL when the last name is `.` or `..`, or the path is the
 * root. */
MUST_USE int path_open_parent(char *path, const char **ret_name);

/* Renames atomically. Fails with -EEXIST when the target exists and `replace` is false, else with
 * -errno. */
MUST_USE int path_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace);

/* Translates an errno into a row of errors.def. The text is "what path: reason". */
int path_error(struct err *e, int sys, const char *what, const char *path);

/* Removes empty names and `.` from an absolute path, in place. */
void path_clean(char *path);
/* Makes every missing directory above the last name. Fails with -errno. */
MUST_USE int path_make_parents(const char *path, struct arena *a);
/* Fails with NOT_A_REGULAR_FILE or IS_A_DIRECTORY for anything but a regular file. */
MUST_USE int path_check_regular(const struct stat *st, const char *path, struct err *e);
/* Opens a regular file for reading and returns its descriptor. Never opens anything else. */
MUST_USE int path_open_regular(const char *path, struct err *e);
/* Writes the member `key`, or `key`_b64 when the path is not UTF-8. */
void path_write(struct json_out *o, const char *key, const char *path);
