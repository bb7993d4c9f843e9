#include "transport/server.h"

#include <errno.h>

#include "base/log.h"
#include "transport/conn.h"
#include "transport/grpc_call.h"
#include "wire/gzip.h"

static void on_awake(uv_idle_t *handle) {
    (void)handle; /* nothing to do: the active handle alone keeps the loop awake */
}

static void on_before_sleep(uv_prepare_t *handle) {
    struct server *s = handle->data;
    /* a list of its own, so that connections that become dirty during the flush wait for the next
     * iteration */
    struct list turn;
    list_init(&turn);
    for (struct list *node; (node = list_pop_front(&s->dirty));)
        list_push_back(&turn, node);
    for (struct list *node; (node = list_pop_front(&turn));)
        conn_flush(container_of(node, struct conn, in_dirty));
    if (list_is_empty(&s->dirty))
        uv_idle_stop(&s->stay_awake);
    else
        uv_idle_start(&s->stay_awake, on_awake);
    log_flush();
}

int server_init(struct server *s, uv_loop_t *loop, struct api *api, const struct limits *limits) {
    *s = (struct server){.loop = loop, .api = api, .limits = limits};
    list_init(&s->conns);
    list_init(&s->dirty);
    list_init(&s->spare_calls);
    if (stream_pool_init(&s->pool) < 0 || gzip_new(&s->gzip) < 0) {
        stream_pool_done(&s->pool);
        return -ENOMEM;
    }
    deadlines_init(&s->deadlines, loop);
    uv_prepare_init(loop, &s->before_sleep);
    uv_idle_init(loop, &s->stay_awake);
    s->before_sleep.data = s->stay_awake.data = s;
    uv_prepare_start(&s->before_sleep, on_before_sleep);
    uv_unref((uv_handle_t *)&s->before_sleep);
    return 0;
}

void server_drain(struct server *s, void (*on_drained)(struct server *s)) {
    s->draining = true;
    s->on_drained = on_drained;
    if (list_is_empty(&s->conns)) {
        on_drained(s);
        return;
    }
    LIST_FOR_EACH(node, &s->conns) {
        struct conn *c = container_of(node, struct conn, in_server);
        if (c->stream.closing)
            continue;
        if (c->protocol)
            c->protocol->on_drain(c);
        else
            conn_close(c);
    }
}

void server_cut(struct server *s) {
    LIST_FOR_EACH(node, &s->conns)
        conn_close(container_of(node, struct conn, in_server));
}

void server_close(struct server *s) {
    deadlines_close(&s->deadlines);
    uv_close((uv_handle_t *)&s->before_sleep, NULL);
    uv_close((uv_handle_t *)&s->stay_awake, NULL);
}

void server_done(struct server *s) {
    grpc_call_pool_done(s);
    stream_pool_done(&s->pool);
    gzip_free(s->gzip);
}
