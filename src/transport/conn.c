#include "transport/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/h2_conn.h"

/* Flush after this many received bytes, so that a peer that sends much gets its window updates
 * within the same loop iteration. Otherwise the updates wait until nothing is left to read, and the
 * peer has to stop sending until then. */
#define ANSWER_BYTES ((size_t)256 * 1024)

/* --- closing --- */

static void on_closed(struct stream *stream) {
    struct conn *c = container_of(stream, struct conn, stream);
    struct server *s = c->server;
    list_remove(&c->in_server);
    s->n_conns--;
    free(c);
    if (s->draining && list_is_empty(&s->conns) && s->on_drained)
        s->on_drained(s);
}

void conn_close(struct conn *c) {
    if (c->stream.closing)
        return;
    stream_close(&c->stream);
    list_remove(&c->in_dirty);
    deadline_clear(&c->server->deadlines, &c->timer);
    if (c->protocol)
        c->protocol->gone(c);
}

void conn_finish(struct conn *c) {
    if (c->closing || c->stream.closing)
        return;
    c->closing = true;
    /* Set a deadline, because a peer that does not read could keep the connection open forever. */
    deadline_set(&c->server->deadlines, &c->timer,
                 clock_us() + server_limit(c->server, LIMIT_KEEPALIVE_TIMEOUT) * 1000);
    conn_dirty(c);
}

static void on_gone(struct stream *stream, int why) {
    (void)why;
    conn_close(container_of(stream, struct conn, stream));
}

/* --- sending --- */

void conn_dirty(struct conn *c) {
    if (list_is_empty(&c->in_dirty) && !c->stream.closing)
        list_push_back(&c->server->dirty, &c->in_dirty);
}

void conn_flush(struct conn *c) {
    c->unanswered_bytes = 0;
    if (stream_is_busy(&c->stream))
        return; /* on_drained marks the connection dirty again */
    bool more = false;
    struct gather_list gather;
    gather.n = 0;
    uint8_t *block = stream_block(&c->stream);
    size_t n = block && c->protocol ? c->protocol->pull(c, block, &gather, &more) : 0;
    if (c->stream.closing)
        return; /* the protocol closed the connection */
    if (!block || stream_send(&c->stream, n, &gather) < 0) {
        conn_close(c);
        return;
    }
    if (c->protocol)
        c->protocol->on_sent(c);
    if (c->stream.closing || stream_is_busy(&c->stream))
        return;
    if (more)
        conn_dirty(c);
    else if (c->closing)
        conn_close(c);
}

static void on_drained(struct stream *stream) {
    conn_dirty(container_of(stream, struct conn, stream));
}

/* --- accepting --- */

/* The peer speaks HTTP/1.1. Reply in a form that curl and browsers display. */
static void conn_refuse_http1(struct conn *c) {
    static const char body[] =
        "{\"code\":\"UNIMPLEMENTED\",\"message\":\"this daemon speaks gRPC over "
        "HTTP/2 with prior knowledge\"}\n";
    struct gather_list none;
    none.n = 0;
    char *block = (char *)stream_block(&c->stream);
    int n = block ? snprintf(block, STREAM_BLOCK_BYTES,
                             "HTTP/1.1 505 HTTP Version Not Supported\r\n"
                             "content-type: application/json\r\n"
                             "content-length: %zu\r\nconnection: close\r\n\r\n%s",
                             sizeof body - 1, body)
                  : -1;
    if (n > 0 && stream_send(&c->stream, (size_t)n, &none) == 0 && stream_is_busy(&c->stream))
        conn_finish(c);
    else
        conn_close(c);
}

/* Chooses the protocol by the first bytes, then passes them to the protocol. */
static void conn_choose(struct conn *c, const uint8_t *bytes, size_t n) {
    size_t take = MIN(n, sizeof c->first - c->n_first);
    memcpy(c->first + c->n_first, bytes, take);
    c->n_first += take;
    if (memcmp(c->first, H2_PREFACE, c->n_first) != 0) {
        conn_refuse_http1(c);
        return;
    }
    if (c->n_first < sizeof c->first)
        return;
    if (h2_conn_start(c) < 0) {
        conn_close(c);
        return;
    }
    c->protocol->on_bytes(c, c->first, sizeof c->first);
    if (n > take && !c->stream.closing)
        c->protocol->on_bytes(c, bytes + take, n - take);
}

static void on_bytes(struct stream *stream, const uint8_t *bytes, size_t n) {
    struct conn *c = container_of(stream, struct conn, stream);
    c->heard_us = clock_us();
    if (c->closing)
        return;
    if (c->protocol)
        c->protocol->on_bytes(c, bytes, n);
    else
        conn_choose(c, bytes, n);
    c->unanswered_bytes += n;
    if (c->unanswered_bytes >= ANSWER_BYTES && c->protocol && !c->stream.closing)
        conn_flush(c);
}

static const struct stream_events events = {on_bytes, on_drained, on_gone, on_closed};

static void on_timer(struct deadline *d) {
    struct conn *c = container_of(d, struct conn, timer);
    if (c->protocol && !c->closing)
        c->protocol->on_timer(c);
    else
        conn_close(c);
}

static void conn_name_peer(struct conn *c) {
    struct ucred cred;
    socklen_t len = sizeof cred;
    if (c->peer.is_unix) {
        if (getsockopt(stream_fd(&c->stream), SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
            cred = (struct ucred){.uid = (uid_t)-1};
        c->peer.uid = cred.uid;
        c->peer.pid = cred.pid;
        snprintf(c->peer.text, sizeof c->peer.text, "uid:%u", (unsigned)cred.uid);
        return;
    }
    struct sockaddr_storage addr = {0};
    char host[INET6_ADDRSTRLEN] = "?";
    int addr_len = sizeof addr;
    unsigned port = 0;
    uv_tcp_getpeername(&c->stream.uv.tcp, (struct sockaddr *)&addr, &addr_len);
    if (addr.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&addr;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (addr.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        port = ntohs(in6->sin6_port);
    }
    c->peer.uid = (uid_t)-1;
    snprintf(c->peer.text, sizeof c->peer.text, "%s:%u", host, port);
}

static void conn_accepted(struct conn *c) {
    struct server *s = c->server;
    list_push_back(&s->conns, &c->in_server);
    s->n_conns++;
    conn_name_peer(c);
    if (!c->peer.is_unix)
        uv_tcp_nodelay(&c->stream.uv.tcp, 1);
    if (s->draining || s->n_conns > server_limit(s, LIMIT_CONNECTIONS_MAX)) {
        log_text(LOG_WARN, "connection_refused", "%s: %s", c->peer.text,
                 s->draining ? "the daemon is shutting down" : "connections.max is reached");
        conn_close(c);
        return;
    }
    c->heard_us = clock_us();
    deadline_set(&s->deadlines, &c->timer,
                 c->heard_us + server_limit(s, LIMIT_CONNECTION_FIRST_BYTES) * 1000);
    if (stream_read_start(&c->stream) < 0)
        conn_close(c);
}

void conn_accept(struct server *s, uv_stream_t *listener, bool is_unix) {
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        log_text(LOG_ERROR, "connection_refused", "out of memory");
        return;
    }
    c->server = s;
    c->peer.is_unix = is_unix;
    list_init(&c->in_server);
    list_init(&c->in_dirty);
    deadline_init(&c->timer, on_timer);
    int r = is_unix ? stream_init_pipe(&c->stream, s->loop, &s->pool, &events)
                    : stream_init_tcp(&c->stream, s->loop, &s->pool, &events);
    if (r < 0) {
        free(c);
        return;
    }
    r = uv_accept(listener, &c->stream.uv.stream);
    if (r < 0) {
        list_push_back(&s->conns, &c->in_server);
        s->n_conns++;
        conn_close(c);
        return;
    }
    conn_accepted(c);
}
