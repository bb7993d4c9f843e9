/* serve — the table of requests: one message in, one reply out. */
#pragma once

#include "base/macros.h"
#include "spawn/spawn.h"
#include "spawn/sweep.h"

struct serve {
    union spawn_request request; /* the current request; large */
    struct spawn *s;
    int sock;                 /* the client; -1: none */
    struct sweep_owned owned; /* ids of a SWEEP that comes in parts */
};

void serve_init(struct serve *v, struct spawn *s);
/* Receives and answers one message; the reply to a DESTROY may come later. Returns 0, or -errno
 * when the client is gone. */
MUST_USE int serve_one(struct serve *v);
/* Replies to every DESTROY that has completed. */
void serve_dying(struct serve *v);
/* Call this when the client has disconnected. Drops its incomplete SWEEP. */
void serve_reset(struct serve *v);
