#include "api/heartbeat.h"

static uint64_t heartbeat_interval_us(const struct heartbeat *h) {
    return (uint64_t)context_limit(h->call, LIMIT_HEARTBEAT) * 1000;
}

static void heartbeat_on_due(struct deadline *d) {
    struct heartbeat *h = container_of(d, struct heartbeat, deadline);
    uint64_t now = clock_us();
    if (now >= h->sent_us + heartbeat_interval_us(h)) {
        Berm__V1__Heartbeat m = BERM__V1__HEARTBEAT__INIT;
        m.server_unix_ms = clock_unix_ms();
        m.head_sequence = ledger_head(context_ledger(h->call));
        if (!h->on_quiet(h, &m))
            return;
    }
    /* If nothing was sent, because the call is not writable, count the interval from now. */
    bool was_sent = h->sent_us + heartbeat_interval_us(h) > now;
    deadline_set(context_deadlines(h->call), d,
                 (was_sent ? h->sent_us : now) + heartbeat_interval_us(h));
}

void heartbeat_init(struct heartbeat *h, struct call *c,
                    bool (*on_quiet)(struct heartbeat *h, Berm__V1__Heartbeat *m)) {
    h->call = c;
    h->on_quiet = on_quiet;
    deadline_init(&h->deadline, heartbeat_on_due);
}

void heartbeat_start(struct heartbeat *h) {
    heartbeat_sent(h);
    deadline_set(context_deadlines(h->call), &h->deadline, h->sent_us + heartbeat_interval_us(h));
}

void heartbeat_stop(struct heartbeat *h) {
    if (h->call)
        deadline_clear(context_deadlines(h->call), &h->deadline);
}
