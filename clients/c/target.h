/* target — where the daemon is and what to show it: from the options, the environment, or by default. */
#pragma once

#include <stdbool.h>

#include <berm.h>

#include "base/macros.h"

struct target {
    char name[256];   /* the path of a socket, or HOST:PORT */
    char bearer[300]; /* "Bearer TOKEN"; empty on a Unix socket */
    char trace[64];   /* traceparent to send with every call; or empty */
    bool is_tcp;
    char problem[300]; /* why it cannot be used; empty when it can */
};

void target_init(struct target *t, const struct berm_options *o);
/* A connected descriptor, CLOEXEC, or -errno; -EHOSTUNREACH when no address has the name. */
MUST_USE int target_connect(const struct target *t);
