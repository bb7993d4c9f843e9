#include "guest/link.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "base/fd.h"

#define READ_BYTES 65536
#define LINGER_MS 2000
#define BACKLOG 4096 /* daemons that restart while the guest is frozen leave connections behind */

static void link_on_in(struct source *s, uint32_t events);
static void link_on_out(struct source *s, uint32_t events);
static void link_on_connect(struct source *s, uint32_t events);
static void link_on_linger(struct timer *t);

void link_init(struct link *l, struct loop *loop, const struct link_events *events) {
    *l = (struct link){.loop = loop, .events = events};
    l->listener = (struct source){.fd = -1, .on_ready = link_on_connect};
    l->in = (struct source){.fd = -1, .on_ready = link_on_in};
    l->out = (struct source){.fd = -1, .on_ready = link_on_out};
    rpc_in_init(&l->rx, LINK_MESSAGE_MAX);
    buf_init(&l->tx, LINK_OUT_MAX);
    timer_init(&l->linger, link_on_linger);
}

static void link_drop_tx(struct link *l) {
    for (size_t i = 0; i < l->n_tx_fds; i++)
        fd_close_all(l->tx_fds[i].fds, l->tx_fds[i].n);
    l->n_tx_fds = 0;
    l->tx_offset = 0;
    buf_done(&l->tx);
}

static void link_drop_connection(struct link *l, bool ended) {
    if (!l->connected)
        return;
    int in = loop_remove(l->loop, &l->in);
    int out = loop_remove(l->loop, &l->out);
    close(in);
    if (out >= 0)
        close(out);
    timer_stop(&l->linger);
    rpc_in_done(&l->rx);
    rpc_in_init(&l->rx, LINK_MESSAGE_MAX);
    link_drop_tx(l);
    l->connected = l->hello_done = l->failed = l->stalled = false;
    l->generation++;
    l->events->on_gone(l, ended);
}

void link_done(struct link *l) {
    link_drop_connection(l, false);
    int fd = loop_remove(l->loop, &l->listener);
    if (fd >= 0)
        close(fd);
    rpc_in_done(&l->rx);
    link_drop_tx(l);
}

static void link_on_linger(struct timer *t) {
    link_drop_connection(container_of(t, struct link, linger), false);
}

static int link_set_nonblock(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int link_listen(struct link *l, int sock) {
    int r = link_set_nonblock(sock);
    if (r < 0)
        return r;
    if (listen(sock, BACKLOG) < 0 || fcntl(sock, F_SETFD, FD_CLOEXEC) < 0)
        return -errno;
    return loop_add(l->loop, &l->listener, sock, EPOLLIN);
}

int link_stdio(struct link *l, int in, int out) {
    int r = link_set_nonblock(in);
    if (r == 0)
        r = link_set_nonblock(out);
    if (r == 0)
        r = loop_add(l->loop, &l->in, in, EPOLLIN);
    if (r == 0)
        r = loop_add(l->loop, &l->out, out, 0);
    l->stdio = l->connected = r == 0;
    return r;
}

static void link_on_connect(struct source *s, uint32_t events) {
    struct link *l = container_of(s, struct link, listener);
    (void)events;
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    link_drop_connection(l, false);
    if (loop_add(l->loop, &l->in, fd, EPOLLIN) < 0) {
        close(fd);
        return;
    }
    l->connected = true;
}

bool link_is_busy(const struct link *l) {
    return buf_len(&l->tx) > LINK_OUT_BUSY || l->n_tx_fds > LINK_OUT_FDS / 2;
}

int link_send(struct link *l, struct str message, const int *fds, size_t n_fds) {
    int r = !l->connected || l->n_tx_fds == LINK_OUT_FDS ? -ENOBUFS : 0;
    uint64_t at = l->tx_offset + buf_len(&l->tx);
    if (r == 0)
        r = rpc_frame(&l->tx, l->rx.framing, message);
    if (r < 0) {
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        return r;
    }
    if (n_fds > 0) {
        l->tx_fds[l->n_tx_fds].at = at;
        l->tx_fds[l->n_tx_fds].n = n_fds;
        memcpy(l->tx_fds[l->n_tx_fds++].fds, fds, n_fds * sizeof fds[0]);
    }
    return 0;
}

int link_send_buf(struct link *l, const struct buf *message) {
    struct str text = {(const char *)buf_data(message), buf_len(message)};
    return link_send(l, text, NULL, 0);
}

/* Sends bytes with the first set of queued descriptors. */
static ssize_t link_send_fds(struct link *l, const uint8_t *bytes, size_t n) {
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(RPC_MESSAGE_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)bytes, .iov_len = n};
    size_t fds_bytes = l->tx_fds[0].n * sizeof(int);
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.space,
                         .msg_controllen = CMSG_SPACE(fds_bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds_bytes);
    memcpy(CMSG_DATA(c), l->tx_fds[0].fds, fds_bytes);
    ssize_t sent = sendmsg(l->in.fd, &msg, MSG_NOSIGNAL);
    if (sent > 0) {
        fd_close_all(l->tx_fds[0].fds, l->tx_fds[0].n);
        memmove(l->tx_fds, l->tx_fds + 1, --l->n_tx_fds * sizeof l->tx_fds[0]);
    }
    return sent;
}

/* Descriptors travel with the first byte of their message, so one write ends where the next message with
 * descriptors begins. */
static ssize_t link_write_some(struct link *l) {
    size_t n = buf_len(&l->tx);
    const uint8_t *bytes = buf_data(&l->tx);
    if (l->stdio)
        return write(l->out.fd, bytes, n);
    bool with_fds = l->n_tx_fds > 0 && l->tx_fds[0].at == l->tx_offset;
    size_t next = with_fds ? 1 : 0;
    if (l->n_tx_fds > next)
        n = MIN(n, (size_t)(l->tx_fds[next].at - l->tx_offset));
    return with_fds ? link_send_fds(l, bytes, n) : send(l->in.fd, bytes, n, MSG_NOSIGNAL);
}

static void link_take_messages(struct link *l);

static void link_write_all(struct link *l) {
    while (l->connected && buf_len(&l->tx) > 0) {
        ssize_t n = link_write_some(l);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            link_drop_connection(l, l->stdio);
            return;
        }
        buf_consume(&l->tx, (size_t)n);
        l->tx_offset += (size_t)n;
    }
}

void link_flush(struct link *l) {
    link_write_all(l);
    while (l->stalled && l->connected && !link_is_busy(l)) {
        link_take_messages(l);
        link_write_all(l);
    }
    if (!l->connected)
        return;
    bool waiting = buf_len(&l->tx) > 0;
    if (!waiting)
        buf_trim(&l->tx);
    if (l->failed && !waiting) {
        link_drop_connection(l, false);
        return;
    }
    uint32_t reading = link_is_busy(l) || l->failed ? 0 : EPOLLIN;
    if (l->stdio) {
        loop_set(l->loop, &l->in, reading);
        loop_set(l->loop, &l->out, waiting ? EPOLLOUT : 0);
    } else {
        loop_set(l->loop, &l->in, reading | (waiting ? EPOLLOUT : 0));
    }
}

void link_fail(struct link *l) {
    l->hello_done = false;
    if (l->stdio) {
        rpc_in_resync(&l->rx);
        return;
    }
    l->failed = true;
    timer_start(l->loop, &l->linger, LINGER_MS);
}

static void link_on_out(struct source *s, uint32_t events) {
    struct link *l = container_of(s, struct link, out);
    if (events & (EPOLLERR | EPOLLHUP))
        link_drop_connection(l, true);
    else
        link_flush(l);
}

static ssize_t link_receive(struct link *l) {
    uint8_t *at;
    int r = rpc_in_reserve(&l->rx, READ_BYTES, &at);
    if (r < 0)
        return r;
    size_t max = MIN(READ_BYTES, buf_available(&l->rx.bytes));
    int fds[FD_PASS_MAX];
    size_t n_fds = 0;
    ssize_t n =
        l->stdio ? read(l->in.fd, at, max) : fd_recv(l->in.fd, at, max, fds, FD_PASS_MAX, &n_fds);
    if (l->stdio && n < 0)
        n = -errno;
    if (n <= 0)
        return n;
    rpc_in_commit(&l->rx, (size_t)n);
    r = rpc_in_take_fds(&l->rx, fds, n_fds);
    return r < 0 ? r : n;
}

/* Reports an error of the stream itself, in a reply whose id is null. */
static void link_refuse_stream(struct link *l, int why) {
    struct err e;
    if (why == -EMSGSIZE)
        err_set(&e, ERR_MESSAGE_TOO_LARGE,
                "the message is larger than %zu bytes, or too many descriptors came",
                LINK_MESSAGE_MAX);
    else
        err_set(&e, ERR_MALFORMED, "the stream must contain lines or Content-Length headers");
    struct buf text;
    buf_init(&text, 4096);
    if (rpc_write_error(&text, 0, &e, -1) == 0)
        (void)!link_send(l, (struct str){(const char *)buf_data(&text), buf_len(&text)}, NULL, 0);
    buf_done(&text);
    link_fail(l);
}

/* Handles the messages that have arrived. Stops while the peer does not read replies; link_flush
 * resumes. */
static void link_take_messages(struct link *l) {
    uint64_t generation = l->generation;
    while (l->connected && !l->failed && l->generation == generation) {
        l->stalled = link_is_busy(l);
        if (l->stalled)
            return;
        struct str text;
        int r = rpc_in_next(&l->rx, &text);
        if (r == 0)
            return;
        if (r < 0) {
            link_refuse_stream(l, r);
            return;
        }
        l->events->on_message(l, text);
    }
}

static void link_on_in(struct source *s, uint32_t events) {
    struct link *l = container_of(s, struct link, in);
    if (events & EPOLLOUT)
        link_flush(l);
    if (!l->connected || l->failed || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t n = link_receive(l);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n == -EMSGSIZE) {
        link_refuse_stream(l, (int)n);
        return;
    }
    if (n <= 0) {
        link_drop_connection(l, l->stdio);
        return;
    }
    link_take_messages(l);
}
