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
    char problem[300]; /* why the target cannot be used; empty if it is valid */
};

void target_init(struct target *t, const struct berm_options *o);
/* Connects. Returns the socket, with CLOEXEC set, or -errno; -EHOSTUNREACH if the host name does
 * not resolve. */
MUST_USE int target_connect(const struct target *t);
