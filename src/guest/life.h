/* life — start, run and end of the guest.
 *
 * The guest ends by `shutdown`, by the end of stdin, or when its lease expires without a connection. A guest
 * that is not PID 1 also ends by SIGTERM and SIGINT. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LIFE_LEASE_DEFAULT_MS UINT64_C(86400000)

struct guest;

struct life_options {
    bool stdio; /* speak on stdin and stdout instead of `fd` */
    int fd;     /* a bound Unix socket */
    uint64_t lease_ms;
};

/* Runs until the guest has ended. Returns 0, or -errno when the guest could not start. */
int life_run(const struct life_options *o);
/* Begins a shutdown: ends every exec, with SIGTERM first when grace_ms > 0, and then the guest. */
void life_end(struct guest *g, uint64_t grace_ms);
