/* target — address and token of the daemon: from the options, the environment, or the defaults. */
#pragma once

#include <stdbool.h>

#include <berm.h>

#include "base/macros.h"

struct target {
    char name[256];   /* path of a socket, or HOST:PORT */
    char bearer[300]; /* "Bearer TOKEN"; empty on a Unix socket */
    char trace[64];   /* traceparent for every call; or empty */
    bool is_tcp;
    char problem[300]; /* why it cannot be used; empty if it can */
};

void target_init(struct target *t, const struct berm_options *o);
/* Returns a connected descriptor with CLOEXEC, or -errno; -EHOSTUNREACH if the name has no
 * address. */
MUST_USE int target_connect(const struct target *t);
