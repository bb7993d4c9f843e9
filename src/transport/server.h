/* server — what all connections share: loop hooks, buffers, limits, shutdown.
 *
 * Owner:   main.                        End: server_drain, then server_close.
 * Flush:   a connection with something to send adds itself to `dirty`. Before the loop sleeps, the
 *          server sends one block of each. So a large stream does not starve the others, and the
 *          replies of one loop iteration leave in one write.
 * Bounds:  connections.max; each connection has its own bounds (conn.h, h2_conn.h). */
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
    uv_idle_t stay_awake; /* active while a connection has more than one block to send */
    struct list conns;
    struct list dirty;
    struct list spare_calls; /* calls pooled for the next request */
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
/* Refuses new calls. Calls on_drained when every connection has ended. */
void server_drain(struct server *s, void (*on_drained)(struct server *s));
/* Closes every connection now, even with open calls. */
void server_cut(struct server *s);
/* Call this after every connection has ended. The handles close in the loop's next iteration. */
void server_close(struct server *s);
/* Call this after the loop has ended. */
void server_done(struct server *s);
