/* check — whether what was opened may go into a sandbox.
 *
 * Said of the opened object, never of its path: nothing that is renamed or linked meanwhile changes the
 * answer. An object lies beneath a directory when a walk by `..` from it meets that directory. */
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
    int roots[OPEN_ROOTS_MAX]; /* what may go in lies beneath one of these */
    unsigned n_roots;
    int never
        [OPEN_NEVER_MAX]; /* /proc, /sys, /dev, the state folder: neither these nor what is above or
                                  beneath them */
    unsigned n_never;
    struct open_spot above[OPEN_ABOVE_MAX]; /* the directories these lie in, "/" among them */
    unsigned n_above;
};

/* At the start, as root: the state folder is not the caller's to walk from. Once `never` is filled. -errno. */
MUST_USE int check_learn(struct open_rules *r);

/* `dir` is the object, or the directory a file lies in. HOST_PATH_REFUSED. */
MUST_USE int check_target(const struct open_rules *r, int dir, bool is_file, struct err *e);
/* Inside, the sandbox user has the rights of the directory's owner, unless it is mounted for everybody. So it
 * must be the caller's own, or (1) be shown as everybody's; to be written it must be the caller's own and
 * not root's. HOST_PATH_REFUSED. */
MUST_USE int check_owner(int dir, bool writable, struct err *e);
