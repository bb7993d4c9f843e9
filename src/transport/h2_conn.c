#include "transport/h2_conn.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/grpc_call.h"

#define CONNECTION_WINDOW_BYTES (4u << 20)

static void h2_conn_bytes(struct conn *c, const uint8_t *bytes, size_t n) {
    struct h2_conn *h = c->state;
    h->pinged_us = 0;
    bool over = h2_feed(h->h2, bytes, n) < 0;
    if (h->heading && !h->heading->deadline.is_set) {
        uint64_t limit_us = server_limit(c->server, LIMIT_CONNECTION_REQUEST) * 1000;
        deadline_set(&c->server->deadlines, &h->heading->deadline,
                     h->heading->call.began_us + limit_us);
    }
    if (over)
        conn_finish(c); /* sends the queued GOAWAY, then closes */
    else
        conn_dirty(c);
}

/* Wakes handlers that wait to send. Call it between two calls of h2_pull, never during one. */
static void h2_wake_writable(struct h2_conn *h) {
    for (struct list *node; (node = list_pop_front(&h->writable));)
        call_writable(&container_of(node, struct grpc_call, in_writable)->call);
}

/* Pulls, wakes waiting handlers and pulls again. If the gather list has parts, the handlers wait
 * until those are sent, because a handler may move their bytes. */
static size_t h2_conn_pull(struct conn *c, uint8_t *block, struct gather_list *gather,
                           bool *ret_more) {
    struct h2_conn *h = c->state;
    size_t pulled = 0;
    do {
        ssize_t n = h2_pull(h->h2, block + pulled, STREAM_BLOCK_BYTES - pulled, STREAM_BEYOND_BYTES,
                            gather, ret_more);
        if (n < 0) {
            conn_close(c);
            return 0;
        }
        pulled += (size_t)n;
        if (gather->n > 0 || list_is_empty(&h->writable))
            break;
        h2_wake_writable(h);
    } while (!*ret_more);
    if (h2_is_done(h->h2))
        conn_finish(c);
    return pulled;
}

static void h2_conn_sent(struct conn *c) {
    struct h2_conn *h = c->state;
    h2_sent(h->h2);
    h2_wake_writable(h);
}

/* One timer serves two purposes: pinging a silent peer, and closing an idle connection. */
static void h2_conn_timer(struct conn *c) {
    struct h2_conn *h = c->state;
    uint64_t silence_us = server_limit(c->server, LIMIT_KEEPALIVE_INTERVAL) * 1000;
    uint64_t answer_us = server_limit(c->server, LIMIT_KEEPALIVE_TIMEOUT) * 1000;
    uint64_t idle_us = server_limit(c->server, LIMIT_CONNECTION_IDLE) * 1000;
    uint64_t now = clock_us();
    uint64_t next = now + silence_us;
    if (h->pinged_us != 0 && now - h->pinged_us >= answer_us) {
        log_text(LOG_INFO, "connection_dead", "%s did not answer a PING", c->peer.text);
        conn_close(c);
        return;
    }
    if (list_is_empty(&h->calls) && idle_us != 0 && now - h->idle_since_us >= idle_us) {
        h2_drain(h->h2, false);
        conn_dirty(c);
    } else if (h->pinged_us == 0 && now - c->heard_us >= silence_us) {
        h->pinged_us = now;
        h2_ping(h->h2);
        conn_dirty(c);
        next = now + answer_us;
    }
    deadline_set(&c->server->deadlines, &c->timer, next);
}

static void h2_conn_drain(struct conn *c) {
    struct h2_conn *h = c->state;
    LIST_FOR_EACH(node, &h->calls)
        call_drain(&container_of(node, struct grpc_call, in_conn)->call);
    h2_drain(h->h2, !list_is_empty(&h->calls));
    conn_dirty(c);
}

static void h2_conn_gone(struct conn *c) {
    struct h2_conn *h = c->state;
    while (!list_is_empty(&h->calls))
        grpc_call_leave(container_of(h->calls.next, struct grpc_call, in_conn));
    h2_free(h->h2);
    free(h);
    c->state = NULL;
}

static const struct conn_protocol protocol = {h2_conn_bytes, h2_conn_pull,  h2_conn_sent,
                                              h2_conn_timer, h2_conn_drain, h2_conn_gone};

int h2_conn_start(struct conn *c) {
    struct server *s = c->server;
    struct h2_limits limits = {
        .max_streams = (uint32_t)server_limit(s, LIMIT_CONNECTION_STREAMS),
        .stream_window_bytes = GRPC_WINDOW_BYTES,
        .connection_window_bytes = CONNECTION_WINDOW_BYTES,
        .max_header_bytes = (uint32_t)server_limit(s, LIMIT_HEADERS_BLOCK),
        .max_data_bytes = (uint32_t)(STREAM_BLOCK_BYTES + STREAM_BEYOND_BYTES - H2_HEAD_BYTES),
    };
    struct h2_conn *h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->conn = c;
    h->idle_since_us = clock_us();
    list_init(&h->calls);
    list_init(&h->writable);
    if (h2_new(&h->h2, &grpc_call_events, &limits, h) < 0) {
        free(h);
        return -ENOMEM;
    }
    c->state = h;
    c->protocol = &protocol;
    deadline_set(&s->deadlines, &c->timer,
                 clock_us() + server_limit(s, LIMIT_KEEPALIVE_INTERVAL) * 1000);
    return 0;
}
