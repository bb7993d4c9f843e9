/* check — decides whether a host file or directory may enter a sandbox.
 *
 * The checks look at the opened object, never at its path, so renames and links meanwhile do not
 * change the result. An object is beneath a directory when a walk along `..` from it reaches that
 * directory. */
#pragma once

#include <stdint.h>

#include "base/err.h"

#define OPEN_ROOTS_MAX 16
#define OPEN_NEVER_MAX 4
#define OPEN_ABOVE_MAX 256

struct open_spot {
    uint64_t dev, ino;
};

struct open_rules {
    int roots[OPEN_ROOTS_MAX]; /* allowed objects are beneath one of these */
    unsigned n_roots;
    int never
        /* /proc, /sys, /dev, the state directory: refused with everything above and beneath */
        [OPEN_NEVER_MAX];
    unsigned n_never;
    struct open_spot above[OPEN_ABOVE_MAX]; /* the parents of `never`, up to "/" */
    unsigned n_above;
};

/* Fills `above` with the parent directories of the paths in `never`. Call this at the start, as
 * root, because the users who make requests later may not traverse the state directory. Fails with
 * -errno. */
MUST_USE int check_learn(struct open_rules *r);

/* Checks whether an object may enter a sandbox. `dir` is the object itself, or the parent directory
 * of a file. Fails with HOST_PATH_REFUSED. */
MUST_USE int check_target(const struct open_rules *r, int dir, bool is_file, struct err *e);
/* Checks the owner, because in a mount the sandbox user has the rights of the directory's owner.
 * Returns 0 if the directory belongs to the caller. Returns 1 for a directory of another owner,
 * which must be mounted as PUBLIC. A writable directory must belong to the caller, and not to root.
 * Fails with HOST_PATH_REFUSED. */
MUST_USE int check_owner(int dir, bool writable, struct err *e);
