/* path — names inside the sandbox, checked by their spelling and then resolved by the sandbox's kernel.
 *
 * Bounds: PATH_LENGTH_MAX bytes, PATH_NAME_MAX in each name, no NUL, and no `..` that climbs above where
 * the path starts. Links, mounts and races are openat2's to settle, with the sandbox's root as root. */
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

/* The member `name` or `name`_b64, exactly one of them, checked; absolute, with the workspace in front
 * of a relative one. In the arena, ended by NUL. */
MUST_USE int path_param(const struct json *params, const char *name, const char *workspace,
                        struct arena *a, char **ret, struct err *e);
/* The same for text that is at hand. */
MUST_USE int path_absolute(struct str path, const char *field, const char *workspace,
                           struct arena *a, char **ret, struct err *e);

/* openat2 beneath the root `/`, magic links refused; O_CLOEXEC, O_NOCTTY and O_NONBLOCK are added.
 * -errno. */
MUST_USE int path_open(const char *path, int flags, mode_t mode);
/* Opens the directory a path's last name lies in; ret_name points into `path`, which loses its trailing
 * slashes. -EINVAL where the last name is `.`, `..` or the root itself. */
MUST_USE int path_open_parent(char *path, const char **ret_name);

/* One atomic step; -EEXIST where something is there and `replace` is not set. -errno. */
MUST_USE int path_rename(int from_dir, const char *from, int to_dir, const char *to, bool replace);

/* What the kernel said, as a row of errors.def. */
int path_error(struct err *e, int sys, const char *what, const char *path);

/* Removes empty names and `.` from an absolute path, in place. */
void path_clean(char *path);
/* Makes every missing directory above the last name. -errno. */
MUST_USE int path_make_parents(const char *path, struct arena *a);
/* NOT_A_REGULAR_FILE or IS_A_DIRECTORY for anything but a regular file. */
MUST_USE int path_check_regular(const struct stat *st, const char *path, struct err *e);
/* Opens a regular file for reading and returns its descriptor. Never opens anything else. */
MUST_USE int path_open_regular(const char *path, struct err *e);
/* Writes the member `key`, or `key`_b64 when the path is not UTF-8. */
void path_write(struct json_out *o, const char *key, const char *path);
