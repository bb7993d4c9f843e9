/* system — the facts that GetInfo reports. */
#pragma once

#include <stdint.h>

#include "base/limits.h"

/* Filled by the daemon; a part of struct context. */
struct system_facts {
    const char *version;
    const char *instance_id; /* id of the state directory */
    const char *run_id;      /* id of this run of the daemon */
    uint64_t started_us;     /* as returned by clock_us() */
    int64_t started_unix_ms;
    const struct limits *limits;
};
