/* heartbeat — tells the client of a quiet stream that the daemon is still there.
 *
 * Owner:   the call's state that embeds it.
 * Life:    heartbeat_init, heartbeat_start once the stream is open, heartbeat_sent after every
 *          message, heartbeat_stop before the call's state goes away. A heartbeat that never
 *          started may be stopped.
 * Inside on_quiet you may call anything, heartbeat_stop included. */
#pragma once

#include "api/context.h"
#include "base/clock.h"
#include "loop/deadline.h"

struct heartbeat {
    struct call *call;
    struct deadline deadline;
    uint64_t sent_us; /* when the last message was sent */
    /* Called when the stream was quiet for LIMIT_HEARTBEAT. Sends `m`, unless the client has to
     * read first. Returns false when the call is over, because `h` is freed then. */
    bool (*on_quiet)(struct heartbeat *h, Berm__V1__Heartbeat *m);
};

void heartbeat_init(struct heartbeat *h, struct call *c,
                    bool (*on_quiet)(struct heartbeat *h, Berm__V1__Heartbeat *m));
void heartbeat_start(struct heartbeat *h);
void heartbeat_stop(struct heartbeat *h);
static inline void heartbeat_sent(struct heartbeat *h) {
    h->sent_us = clock_us();
}
