#include "clients/c/conn.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "wire/grpc.h"

#define FRAME_HEAD_BYTES ((size_t)9)
#define OUT_BYTES ((size_t)64 * 1024)
#define SOCKET_BYTES (512 * 1024)
#define IN_BYTES ((size_t)128 * 1024)
/* space for the start of the next frames, read in the same call as the rest of a large frame */
#define IN_BEHIND_BYTES ((size_t)4 * 1024)
#define PLACE_BYTES ((size_t)16 * 1024) /* a shorter rest of a frame is copied to the inbox */
#define MAX_FRAME_BYTES (512u << 10)
#define CONN_WINDOW_BYTES ((int32_t)16 << 20)
#define DETAILS_BYTES ((size_t)16 * 1024) /* twice the base64 size that a daemon sends */
#define PING_US ((uint64_t)20 * 1000000)  /* silence before a PING */
#define LOST_US ((uint64_t)30 * 1000000)

struct conn {
    nghttp2_session *session;
    int fd;
    unsigned refs;
    struct outbox out;
    struct call *filling; /* the call whose data frame is arriving; NULL: none */
    size_t frame_left;    /* remaining bytes of that frame, including padding */
    /* the bytes that nghttp2 processes, if they are already at the end of an inbox; else NULL */
    uint8_t *placed;
    uint64_t heard_us; /* when bytes last arrived, or when waiting started */
    bool pinged;       /* a PING was sent after heard_us */
    bool leaving;      /* the daemon refuses new calls on this connection */
    bool deaf;         /* the daemon no longer accepts bytes; received bytes can still be read */
    bool lost;
    char authority[256];
    char bearer[300];
    char trace[64];
};

/* --- receiving --- */

/* Returns whether a complete message is at the head of the inbox. Sets is_bad if the message is
 * malformed. */
static bool has_message(struct call *k, size_t *ret_n) {
    if (buf_len(&k->in) < GRPC_PREFIX_BYTES)
        return false;
    const uint8_t *p = buf_data(&k->in);
    size_t n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (p[0] != 0 || n > CALL_MESSAGE_BYTES) /* the client never accepts compression */
        k->is_bad = true;
    *ret_n = n;
    return !k->is_bad && buf_len(&k->in) >= GRPC_PREFIX_BYTES + n;
}

static void give_back(struct call *k, size_t n) {
    n = MIN(n, k->window_bytes);
    k->window_bytes -= n;
    if (!k->ended && n > 0)
        nghttp2_session_consume_stream(k->conn->session, k->id, n);
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user) {
    (void)session;
    struct conn *c = user;
    c->filling = NULL; /* on_data sets it when nghttp2 accepts the frame */
    c->frame_left = head->type == NGHTTP2_DATA ? head->length : 0;
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *user) {
    (void)flags;
    struct conn *c = user;
    struct call *k = nghttp2_session_get_stream_user_data(session, id);
    nghttp2_session_consume_connection(session, n);
    c->frame_left -= MIN(n, c->frame_left);
    c->filling = k;
    if (!k)
        return 0;
    size_t unused;
    if (bytes == c->placed)
        buf_commit(&k->in, n);
    else if (buf_append(k->lent_bytes > 0 ? &k->later : &k->in, bytes, n) < 0)
        k->is_bad = true;
    k->window_bytes += n;
    if (!has_message(k, &unused)) /* the rest of an incomplete message must fit into the window */
        give_back(k, k->window_bytes);
    return 0;
}

/* Percent-decodes the text into the call's message, truncated to its size. */
static void set_message(struct call *k, struct str text) {
    size_t n = 0;
    for (size_t i = 0; i < text.n && n < sizeof k->message - 1; i++) {
        unsigned value;
        char hex[3] = {0};
        if (text.p[i] == '%' && i + 2 < text.n) {
            memcpy(hex, text.p + i + 1, 2);
            if (sscanf(hex, "%2x", &value) == 1) {
                k->message[n++] = (char)value;
                i += 2;
                continue;
            }
        }
        k->message[n++] = text.p[i];
    }
    k->message[n] = '\0';
}

static int number_of(struct str text) {
    uint64_t value;
    return str_to_u64(text, 0, 999, &value) < 0 ? 2 : (int)value; /* 2 is gRPC's UNKNOWN */
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name_p,
                     size_t name_n, const uint8_t *value_p, size_t value_n, uint8_t flags,
                     void *user) {
    (void)flags;
    (void)user;
    struct call *k = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct str name = {(const char *)name_p, name_n};
    struct str value = {(const char *)value_p, value_n};
    if (!k)
        return 0;
    if (str_is(name, STR(":status")))
        k->http_status = number_of(value);
    else if (str_is(name, STR("grpc-status")))
        k->grpc_status = number_of(value);
    else if (str_is(name, STR("grpc-message")))
        set_message(k, value);
    else if (str_is(name, STR("grpc-status-details-bin")) &&
             buf_append(&k->details, value_p, value_n) < 0)
        buf_clear(&k->details); /* incomplete details are useless; the status remains */
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct conn *c = user;
    struct call *k = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_GOAWAY)
        c->leaving = true;
    else if (k && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA))
        k->answered |= (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    return 0;
}

static void forget(struct conn *c, const struct call *k) {
    if (c->filling == k)
        c->filling = NULL;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
    struct call *k = nghttp2_session_get_stream_user_data(session, id);
    if (!k)
        return 0;
    forget(user, k);
    nghttp2_session_set_stream_user_data(session, id, NULL);
    k->ended = true;
    k->refused = code == NGHTTP2_REFUSED_STREAM;
    return 0;
}

/* Returns where to read the rest of a large frame: the end of its call's inbox. An empty result
 * means that the caller must use the common buffer. */
static struct iovec place(struct conn *c) {
    uint8_t *at;
    struct call *k = c->frame_left >= PLACE_BYTES ? c->filling : NULL;
    if (!k || k->lent_bytes > 0 || buf_reserve(&k->in, c->frame_left, &at) < 0) {
        c->filling = NULL;
        return (struct iovec){0};
    }
    return (struct iovec){at, c->frame_left};
}

static void take_in(struct conn *c, const uint8_t *bytes, size_t n) {
    if (n > 0 && !c->lost && nghttp2_session_mem_recv(c->session, bytes, n) < 0)
        c->lost = true;
}

/* Reads and processes available bytes without blocking. Returns false if there were none. */
static bool receive(struct conn *c) {
    uint8_t behind[IN_BYTES];
    struct iovec placed = place(c);
    struct iovec parts[] = {placed, {behind, placed.iov_len > 0 ? IN_BEHIND_BYTES : IN_BYTES}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = COUNT_OF(parts)};
    ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0)
        c->lost = true;
    size_t came = n > 0 ? (size_t)n : 0, n_placed = MIN(came, placed.iov_len);
    c->placed = placed.iov_base;
    c->filling = NULL; /* on_data sets it again if the frame is still accepted */
    take_in(c, placed.iov_base, n_placed);
    c->placed = NULL;
    take_in(c, behind, came - n_placed);
    c->heard_us = clock_us();
    c->pinged = false;
    return true;
}

/* --- sending --- */

/* Returns the largest frame that the daemon accepts, because nghttp2 would use 16 KiB. */
static ssize_t on_frame_length(nghttp2_session *session, uint8_t type, int32_t id,
                               int32_t session_window, int32_t stream_window, uint32_t max_frame,
                               void *user) {
    (void)session;
    (void)type;
    (void)id;
    (void)user;
    return (ssize_t)MIN((uint32_t)MIN(session_window, stream_window), max_frame);
}

static ssize_t on_read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *user) {
    (void)session;
    (void)id;
    (void)out;
    (void)user;
    struct call *k = source->ptr;
    size_t left = loan_len(&k->body), n = MIN(cap, left);
    if (n > 0)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (left == n && !k->open)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    else if (n == 0) {
        k->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

/* Queues the frame's header, and lends the body to the outbox so that it is not copied. */
static int on_send_body(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t n, nghttp2_data_source *source, void *user) {
    (void)source; /* do not use it: nghttp2 may send a delayed frame after the call is freed */
    struct conn *c = user;
    struct call *k = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!k)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* nghttp2 then sends RST_STREAM */
    if (c->out.owed)
        return NGHTTP2_ERR_WOULDBLOCK;
    if (buf_append(&c->out.bytes, head, FRAME_HEAD_BYTES) < 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    outbox_lend(&c->out, loan_cut(&k->body, n), &k->n_lent);
    return 0;
}

static void flush(struct conn *c) {
    while (!c->deaf) {
        while (buf_len(&c->out.bytes) < OUT_BYTES) {
            const uint8_t *chunk;
            ssize_t n = nghttp2_session_mem_send(c->session, &chunk);
            if (n < 0 || (n > 0 && buf_append(&c->out.bytes, chunk, (size_t)n) < 0))
                c->lost = true;
            if (n <= 0 || c->lost)
                break;
        }
        if (outbox_is_empty(&c->out) || c->lost)
            return;
        ssize_t n = outbox_send(&c->out, c->fd);
        if (n == -EAGAIN)
            return;
        if (n < 0 && n != -EINTR) {
            c->deaf = true;
            outbox_clear(&c->out);
        }
    }
}

/* --- waiting --- */

static int ms_until(uint64_t until_us) {
    uint64_t now = clock_us();
    if (until_us <= now)
        return 0;
    return (int)MIN((until_us - now + 999) / 1000, (uint64_t)60000);
}

static int woken(const struct waker *w, const struct pollfd *p) {
    return w && p->revents != 0 && w->on_wake(w->user) != 0 ? -ECANCELED : 0;
}

int wait_until(uint64_t until_us, const struct waker *w) {
    for (int ms; (ms = ms_until(until_us)) > 0;) {
        struct pollfd p = {.fd = w ? w->fd : -1, .events = POLLIN};
        if (poll(&p, 1, ms) > 0 && woken(w, &p) < 0)
            return -ECANCELED;
    }
    return 0;
}

/* Waits for an event on the connection and handles it. The caller must flush first: if sending
 * happened here, it might complete the call that the caller waits for, and this function would
 * still sleep. until_us 0: no timeout. */
static int conn_step(struct conn *c, uint64_t until_us, const struct waker *w) {
    if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
        c->lost = true; /* the daemon violated HTTP/2, or sent GOAWAY and its last call has ended */
    if (c->lost)
        return -ECONNRESET;
    uint64_t now = clock_us();
    if (until_us != 0 && now >= until_us)
        return -ETIMEDOUT;
    if (now - c->heard_us >= LOST_US) {
        c->lost = true;
        return -ECONNRESET;
    }
    if (now - c->heard_us >= PING_US && !c->pinged) {
        c->pinged = true;
        nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
        flush(c);
    }
    /* read before poll: a large reply arrives faster than it is processed, so poll is rarely
     * needed */
    if ((!w || w->fd < 0) && receive(c))
        return 0;
    uint64_t wake_us = c->heard_us + (c->pinged ? LOST_US : PING_US);
    struct pollfd p[] = {
        {.fd = c->fd, .events = (short)(POLLIN | (outbox_is_empty(&c->out) ? 0 : POLLOUT))},
        {.fd = w ? w->fd : -1, .events = POLLIN},
    };
    if (poll(p, COUNT_OF(p), ms_until(until_us != 0 ? MIN(until_us, wake_us) : wake_us)) <= 0)
        return 0;
    if (p[0].revents & ~POLLOUT)
        receive(c);
    return woken(w, &p[1]);
}

/* --- the connection --- */

static int session_new(struct conn *c) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return -ENOMEM;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        nghttp2_option_del(option);
        return -ENOMEM;
    }
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, on_frame_length);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_body);
    int r = nghttp2_session_client_new2(&c->session, callbacks, c, option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)CALL_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, MAX_FRAME_BYTES},
    };
    if (r != 0 ||
        nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, COUNT_OF(settings)) != 0 ||
        nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                              CONN_WINDOW_BYTES) != 0)
        return -ENOMEM;
    return 0;
}

int conn_open(struct conn **ret_conn, const struct target *target) {
    int fd = target_connect(target);
    if (fd < 0)
        return fd;
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->fd = fd;
    int bytes = SOCKET_BYTES; /* ignore a failure: a smaller buffer is only slower */
    (void)!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    c->refs = 1;
    c->heard_us = clock_us();
    buf_init(&c->out.bytes, OUT_BYTES + CALL_MESSAGE_BYTES);
    snprintf(c->authority, sizeof c->authority, "%s", target->is_tcp ? target->name : "localhost");
    snprintf(c->bearer, sizeof c->bearer, "%s", target->bearer);
    snprintf(c->trace, sizeof c->trace, "%s", target->trace);
    int r = session_new(c);
    if (r < 0)
        conn_unref(c);
    else
        *ret_conn = c;
    return r;
}

struct conn *conn_ref(struct conn *c) {
    c->refs++;
    return c;
}

void conn_unref(struct conn *c) {
    if (--c->refs > 0)
        return;
    flush(c); /* sends a last reset, if one is pending */
    nghttp2_session_del(c->session);
    buf_done(&c->out.bytes);
    close(c->fd);
    free(c);
}

bool conn_is_usable(struct conn *c) {
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    while (!c->lost && poll(&p, 1, 0) > 0)
        receive(c);
    return !c->lost && !c->leaving && !c->deaf && nghttp2_session_check_request_allowed(c->session);
}

void conn_give_up(struct conn *c) {
    c->lost = true;
}

/* --- a call --- */

static nghttp2_nv header(const char *name, const char *value) {
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .value = (uint8_t *)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

/* Writes a grpc-timeout value: at most eight digits and a unit. */
static void put_timeout(char out[16], uint64_t timeout_us) {
    uint64_t ms = MAX(timeout_us / 1000, (uint64_t)1);
    if (ms <= 99999999)
        snprintf(out, 16, "%lum", (unsigned long)ms);
    else
        snprintf(out, 16, "%luS", (unsigned long)MIN(ms / 1000, (uint64_t)99999999));
}

int call_begin(struct call *k, struct conn *c, const char *path, const uint8_t *body, size_t n,
               uint64_t timeout_us) {
    char timeout[16];
    *k = (struct call){.conn = conn_ref(c), .body = {.bytes = body, .n = n}, .grpc_status = -1};
    buf_init(&k->in, GRPC_PREFIX_BYTES + CALL_MESSAGE_BYTES + CALL_WINDOW_BYTES);
    buf_init(&k->later, CALL_WINDOW_BYTES);
    buf_init(&k->details, DETAILS_BYTES);
    nghttp2_nv headers[10] = {
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":authority", c->authority),
        header(":path", path),
        header("te", "trailers"),
        header("content-type", "application/grpc"),
        header("user-agent", "libberm/" BERM_VERSION),
    };
    size_t n_headers = 7;
    if (c->bearer[0] != '\0')
        headers[n_headers++] = header("authorization", c->bearer);
    if (c->trace[0] != '\0')
        headers[n_headers++] = header("traceparent", c->trace);
    if (timeout_us > 0) {
        put_timeout(timeout, timeout_us);
        headers[n_headers++] = header("grpc-timeout", timeout);
    }
    nghttp2_data_provider source = {.source.ptr = k, .read_callback = on_read_body};
    k->id = nghttp2_submit_request(c->session, NULL, headers, n_headers, &source, k);
    if (k->id < 0) {
        k->ended = true;
        call_done(k);
        return -ECONNRESET;
    }
    return 0;
}

void call_keep_open(struct call *k) {
    k->open = true;
}

static void resume(struct call *k) {
    if (k->deferred && !k->ended)
        nghttp2_session_resume_data(k->conn->session, k->id);
    k->deferred = false;
}

void call_send(struct call *k, struct loan body) {
    k->body = body;
    k->waits = false;
    resume(k);
    flush(k->conn);
}

void call_end(struct call *k) {
    k->open = false;
    resume(k);
}

/* Releases the message that call_next returned, and appends the bytes that arrived meanwhile. */
static void take_back(struct call *k) {
    buf_consume(&k->in, k->lent_bytes);
    give_back(k, k->lent_bytes);
    k->lent_bytes = 0;
    if (buf_append(&k->in, buf_data(&k->later), buf_len(&k->later)) < 0)
        k->is_bad = true;
    buf_done(&k->later);
}

int call_next(struct call *k, uint64_t until_us, const struct waker *w, const uint8_t **ret_bytes,
              size_t *ret_n) {
    take_back(k);
    if (!k->waits) { /* the caller was busy: do not count its time as silence of the daemon */
        k->conn->heard_us = clock_us();
        k->conn->pinged = false;
    }
    for (;;) {
        if (has_message(k, ret_n)) {
            *ret_bytes = buf_data(&k->in) + GRPC_PREFIX_BYTES;
            k->lent_bytes = GRPC_PREFIX_BYTES + *ret_n;
            k->waits = false;
            return 1;
        }
        give_back(k, k->window_bytes);
        bool over = k->ended || k->answered;
        if (k->is_bad || (over && buf_len(&k->in) > 0 && k->grpc_status == 0))
            return -EPROTO;
        if (over)
            return 0;
        flush(k->conn);
        int r = k->waits || !call_is_drained(k) ? conn_step(k->conn, until_us, w) : 0;
        if (r < 0)
            return r;
        if (call_is_drained(k) && !has_message(k, ret_n)) {
            k->waits = true;
            return CALL_DRAINED;
        }
    }
}

void call_done(struct call *k) {
    if (!k->conn)
        return;
    forget(k->conn, k);
    if (!k->ended) {
        nghttp2_session_set_stream_user_data(k->conn->session, k->id, NULL);
        nghttp2_submit_rst_stream(k->conn->session, NGHTTP2_FLAG_NONE, k->id, NGHTTP2_CANCEL);
        flush(k->conn);
    }
    if (k->n_lent > 0 && outbox_keep(&k->conn->out) < 0)
        k->conn->lost = true;
    buf_done(&k->in);
    buf_done(&k->later);
    buf_done(&k->details);
    conn_unref(k->conn);
    k->conn = NULL;
}
