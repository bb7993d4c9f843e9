/* server — what all connections share: the loop's hooks, memory to lend, limits, the way out.
 *
 * Owner:   main.                        Ends: server_drain, then server_close.
 * Flush:   a connection with something to send puts itself on `dirty`; just before the loop sleeps,
 *          each gets one block's worth of the socket, so a fat stream starves nobody and the answers
 *          of one turn leave in one write.
 * Bounds:  connections.max; each connection has its own (conn.h, h2_conn.h). */
#pragma once

#include <uv.h>

#include "api/call.h"
#include "base/limits.h"
#include "base/list.h"
#include "loop/deadline.h"
#include "loop/stream.h"

struct gzip;

struct server {
    uv_loop_t *loop;
    struct api *api;
    const struct limits *limits; /* borrowed */
    struct stream_pool pool;
    struct deadlines deadlines;
    struct gzip *gzip;
    uv_prepare_t before_sleep;
    uv_idle_t stay_awake; /* runs while some connection has more to send than its share of a turn */
    struct list conns;
    struct list dirty;
    struct list spare_calls; /* of h2_conn, kept for the next request */
    unsigned n_spare_calls;
    unsigned n_conns;
    bool draining;
    void (*on_drained)(struct server *s);
    void *user;
};

static inline size_t server_limit(const struct server *s, enum limit_id id) {
    return (size_t)s->limits->of[id];
}

MUST_USE int server_init(struct server *s, uv_loop_t *loop, struct api *api,
                         const struct limits *limits);
/* No new calls; on_drained once every connection has ended. */
void server_drain(struct server *s, void (*on_drained)(struct server *s));
/* Ends every connection now, open calls or not. */
void server_cut(struct server *s);
/* After every connection has ended. The handles close with the loop's next turn. */
void server_close(struct server *s);
/* After the loop has run to its end. */
void server_done(struct server *s);
