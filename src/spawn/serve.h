/* serve — the closed table of requests: one message in, one reply out. */
#pragma once

#include "base/macros.h"
#include "spawn/spawn.h"
#include "spawn/sweep.h"

struct serve {
    union spawn_request request; /* the one being answered; large */
    struct spawn *s;
    int sock;                 /* the asker; -1 between two */
    struct sweep_owned owned; /* of a SWEEP that comes in parts */
};

void serve_init(struct serve *v, struct spawn *s);
/* Takes one message and answers it (a DESTROY may answer later). 0, or -errno when the asker is
 * gone. */
MUST_USE int serve_one(struct serve *v);
/* Answers every DESTROY that has come to its end. */
void serve_dying(struct serve *v);
/* The asker left: forget what it had half said. */
void serve_reset(struct serve *v);
