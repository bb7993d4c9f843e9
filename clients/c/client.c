#include "clients/c/client.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/limits.h"
#include "clients/c/error.h"
#include "wire/grpc.h"

#define RECONNECT_MS 30000
#define SILENT_HEARTBEATS 3
#define ANSWER_SLACK_US \
    500000 /* leaves time for the daemon's own DEADLINE_EXCEEDED, which has more details */

struct berm_client {
    struct target target;
    struct conn *conn; /* NULL: not connected, or the last connection refuses new calls */
    bool was_connected;
    int64_t timeout_ms;
    int64_t connect_ms;
    int64_t reconnect_ms;
    int64_t silence_ms;
    struct waker waker;
};

/* --- the object --- */

struct berm_client *berm_client_new(const struct berm_options *options) {
    static const struct berm_options defaults;
    const struct berm_options *o = options ? options : &defaults;
    struct berm_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    target_init(&c->target, o);
    c->timeout_ms = o->timeout_ms;
    c->connect_ms = o->connect_ms;
    c->reconnect_ms = o->reconnect_ms == 0 ? RECONNECT_MS : o->reconnect_ms;
    c->silence_ms =
        o->silence_ms == 0 ? limit_table[LIMIT_HEARTBEAT].value * SILENT_HEARTBEATS : o->silence_ms;
    c->waker.fd = -1;
    return c;
}

void berm_client_free(struct berm_client *c) {
    if (!c)
        return;
    if (c->conn)
        conn_unref(c->conn);
    free(c);
}

const char *berm_client_target(const struct berm_client *c) {
    return c->target.name;
}

void berm_client_set_timeout(struct berm_client *c, int64_t timeout_ms) {
    c->timeout_ms = timeout_ms;
}

void berm_client_set_wake(struct berm_client *c, int fd, berm_on_wake on_wake, void *user) {
    c->waker = (struct waker){.fd = fd, .on_wake = on_wake, .user = user};
}

void client_random_id(char *out, size_t n) {
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint8_t bytes[64];
    n = MIN(n, sizeof bytes);
    while (getrandom(bytes, n, 0) != (ssize_t)n)
        ; /* getrandom returns fewer bytes only when a signal interrupts it */
    for (size_t i = 0; i < n; i++)
        out[i] = alphabet[bytes[i] % 32];
    out[n] = '\0';
}

/* --- backoff and connecting --- */

/* Full jitter: a random time up to a limit that doubles with each attempt (RETRY-1). */
static uint64_t backoff_us(unsigned attempt) {
    uint64_t cap = (uint64_t)limit_table[LIMIT_RETRY_CAP].value * 1000;
    uint64_t step = (uint64_t)limit_table[LIMIT_RETRY_INITIAL].value * 1000;
    uint32_t dice = 0;
    for (unsigned i = 1; i < attempt && step < cap; i++)
        step *= 2;
    if (getrandom(&dice, sizeof dice, 0) < 0)
        dice = UINT32_MAX / 2;
    return MIN(step, cap) * (uint64_t)dice / UINT32_MAX;
}

static int cancelled(struct berm_error *e) {
    return error_set(e, BERM_CANCELLED, "the caller ended the call");
}

static int deadline_passed(struct berm_error *e) {
    return error_set(e, BERM_DEADLINE_EXCEEDED, "the deadline passed before the answer came");
}

static int unreachable(const struct berm_client *c, int r, struct berm_error *e) {
    if (r == -EACCES || r == -EPERM)
        return error_set(e, BERM_PERMISSION_DENIED, "this user may not connect to %s",
                         c->target.name);
    return error_set(e, BERM_UNREACHABLE, "no daemon answers at %s: %s", c->target.name,
                     strerror(-r));
}

static void drop_conn(struct berm_client *c) {
    if (c->conn)
        conn_unref(c->conn);
    c->conn = NULL;
}

/* Provides a connection for a new call. Retries for connect_ms if the client never connected, and
 * for reconnect_ms afterwards. When this fails, no request was sent. */
static int connect_now(struct berm_client *c, uint64_t deadline_us, struct berm_error *e) {
    if (c->conn && conn_is_usable(c->conn))
        return 0;
    drop_conn(c);
    if (c->target.problem[0] != '\0')
        return error_set(e, BERM_INVALID_ARGUMENT, "%s", c->target.problem);
    int64_t timeout_ms = c->was_connected ? c->reconnect_ms : c->connect_ms;
    uint64_t until_us = clock_us() + (uint64_t)MAX(timeout_ms, (int64_t)0) * 1000;
    if (deadline_us != 0)
        until_us = MIN(until_us, deadline_us);
    /* on_wake may have made a call that connected; check c->conn after each wait */
    for (unsigned attempt = 1; !c->conn; attempt++) {
        int r = conn_open(&c->conn, &c->target);
        if (r == 0)
            break;
        uint64_t next_us = clock_us() + MIN(backoff_us(attempt), (uint64_t)1000000);
        if (next_us >= until_us || r == -ENAMETOOLONG || r == -EACCES)
            return unreachable(c, r, e);
        if (wait_until(next_us, &c->waker) < 0)
            return cancelled(e);
    }
    c->was_connected = true;
    return 0;
}

/* --- one message --- */

/* Encodes a request with the gRPC prefix before it. */
static int pack(const ProtobufCMessage *m, uint8_t **ret_body, size_t *ret_n,
                struct berm_error *e) {
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *body = malloc(GRPC_PREFIX_BYTES + n);
    if (!body)
        return error_set(e, BERM_OUT_OF_MEMORY, "out of memory");
    grpc_put_prefix(body, false, n);
    protobuf_c_message_pack(m, body + GRPC_PREFIX_BYTES);
    *ret_body = body;
    *ret_n = GRPC_PREFIX_BYTES + n;
    return 0;
}

static int unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                  ProtobufCMessage **ret, struct berm_error *e) {
    *ret = protobuf_c_message_unpack(type, NULL, n, bytes);
    return *ret ? 0 : error_set(e, BERM_MALFORMED, "the daemon's %s cannot be read", type->name);
}

/* Converts a result of call_next that is not a message into an error. */
static int failed_wait(struct berm_client *c, int r, struct berm_error *e) {
    switch (r) {
    case -ECANCELED:
        return cancelled(e);
    case -ETIMEDOUT:
        return deadline_passed(e);
    case -EPROTO:
        return error_set(e, BERM_MALFORMED, "the daemon at %s broke the protocol", c->target.name);
    default:
        return error_set(e, BERM_DISCONNECTED, "the connection to %s was lost", c->target.name);
    }
}

/* Returns whether the call may be retried (RETRY-2). A lost connection always permits a
 * retry, because every request has a request id, changes nothing, or carries an offset. */
static bool may_repeat(const struct berm_error *e, bool has_request_id) {
    if (e->code == BERM_DISCONNECTED)
        return true;
    if (e->code == BERM_UNREACHABLE || e->code == BERM_CANCELLED ||
        e->code == BERM_DEADLINE_EXCEEDED)
        return false;
    return e->retry == BERM_RETRY_LATER || (e->retry == BERM_RETRY_CHECK && has_request_id);
}

/* --- a call with one response --- */

struct unary {
    const struct berm_method *method;
    uint8_t *body;
    size_t n;
    bool has_request_id;
    uint64_t deadline_us; /* 0: none */
    ProtobufCMessage *response;
};

static int unary_answer(struct berm_client *c, struct unary *u, struct call *k,
                        struct berm_error *e) {
    const uint8_t *bytes;
    size_t n;
    uint64_t until_us = u->deadline_us == 0 ? 0 : u->deadline_us + ANSWER_SLACK_US;
    int r = call_next(k, until_us, &c->waker, &bytes, &n);
    if (r == 1) {
        r = unpack(u->method->response, bytes, n, &u->response, e);
        if (r < 0)
            return r;
        r = call_next(k, until_us, &c->waker, &bytes, &n);
        if (r == 1)
            r = -EPROTO;
    }
    if (r < 0)
        return failed_wait(c, r, e);
    r = error_of_call(e, k);
    if (r == 0 && !u->response)
        return error_set(e, BERM_MALFORMED, "the daemon's answer is missing");
    return r;
}

static int unary_once(struct berm_client *c, struct unary *u, struct berm_error *e) {
    struct call k;
    uint64_t timeout_us = 0;
    int r = connect_now(c, u->deadline_us, e);
    if (r < 0)
        return r;
    if (u->deadline_us != 0) {
        uint64_t now = clock_us();
        if (now >= u->deadline_us)
            return deadline_passed(e);
        timeout_us = u->deadline_us - now;
    }
    if (call_begin(&k, c->conn, u->method->path, u->body, u->n, timeout_us) < 0)
        return failed_wait(c, -ECONNRESET, e);
    r = unary_answer(c, u, &k, e);
    call_done(&k);
    if (r < 0 && u->response)
        protobuf_c_message_free_unpacked(TAKE(u->response), NULL);
    return r;
}

static int unary_run(struct berm_client *c, struct unary *u, struct berm_error *e) {
    unsigned most = (unsigned)limit_table[LIMIT_RETRY_ATTEMPTS].value;
    for (unsigned attempt = 1;; attempt++) {
        int r = unary_once(c, u, e);
        if (r == 0 || attempt == most || !may_repeat(e, u->has_request_id))
            return r;
        uint64_t next_us = clock_us() + backoff_us(attempt);
        if (u->deadline_us != 0 && next_us >= u->deadline_us)
            return r;
        if (wait_until(next_us, &c->waker) < 0)
            return cancelled(e);
    }
}

/* Adds a new request id if the request has none (RETRY-3). Returns the request, or `copy`, a
 * shallow copy with the id; `copy` must have space for any request. */
static const ProtobufCMessage *with_request_id(const ProtobufCMessage *request, void *copy,
                                               char *id, bool *ret_has_one) {
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "request_id");
    *ret_has_one = f != NULL;
    if (!f)
        return request;
    memcpy(copy, request, request->descriptor->sizeof_message);
    char **member = (char **)((char *)copy + f->offset);
    if (*member && (*member)[0] != '\0')
        return request;
    client_random_id(id, 32);
    *member = id;
    return copy;
}

int berm_unary(struct berm_client *c, const struct berm_method *m, const void *request,
               void *ret_response, struct berm_error *e) {
    struct berm_error unwanted;
    char id[33];
    struct unary u = {.method = m};
    if (!e)
        e = &unwanted;
    AUTO_FREE void *copy = malloc(m->request->sizeof_message);
    if (!copy)
        return error_set(e, BERM_OUT_OF_MEMORY, "out of memory");
    if (c->timeout_ms > 0)
        u.deadline_us = clock_us() + (uint64_t)c->timeout_ms * 1000;
    int r = pack(with_request_id(request, copy, id, &u.has_request_id), &u.body, &u.n, e);
    if (r < 0)
        return r;
    r = unary_run(c, &u, e);
    free(u.body);
    if (r < 0)
        return r;
    if (ret_response)
        *(void **)ret_response = u.response;
    else
        berm_free(u.response);
    return 0;
}

void berm_free(void *message) {
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

void *client_copy(const ProtobufCMessage *m) {
    size_t n = protobuf_c_message_get_packed_size(m);
    AUTO_FREE uint8_t *bytes = malloc(n + 1);
    if (!bytes)
        return NULL;
    protobuf_c_message_pack(m, bytes);
    return protobuf_c_message_unpack(m->descriptor, NULL, n, bytes);
}

/* --- a call with a stream of responses --- */

/* Sends the next request, if there is one. */
static int stream_send(struct stream *s, struct call *k, uint8_t **body, enum stream_next *next,
                       struct berm_error *e) {
    const ProtobufCMessage *m;
    size_t n;
    if (!s->on_send || !call_is_drained(k))
        return 0;
    switch (s->on_send(s, &m)) {
    case SEND_MORE:
        free(TAKE(*body));
        if (pack(m, body, &n, e) < 0)
            return -(int)e->code;
        call_send(k, (struct loan){.bytes = *body, .n = n});
        break;
    case SEND_PACKED:
        call_send(k, s->packed);
        s->on_sent(s);
        break;
    case SEND_END:
        call_end(k);
        break;
    case SEND_FAIL:
        *next = STREAM_STOP;
        break;
    case SEND_WAIT:
        break;
    }
    return 0;
}

/* Sends requests and handles messages until the call ends or fails, or on_message stops the
 * stream. */
static int stream_messages(struct berm_client *c, struct stream *s, struct call *k, uint8_t **body,
                           enum stream_next *next, struct berm_error *e) {
    uint64_t until_us = clock_us() + (uint64_t)c->silence_ms * 1000;
    while (*next == STREAM_MORE) {
        const uint8_t *bytes;
        size_t n;
        ProtobufCMessage *m;
        int r = stream_send(s, k, body, next, e);
        if (r < 0 || *next != STREAM_MORE)
            return r;
        r = call_next(k, s->resumes && !s->is_quiet ? until_us : 0, &c->waker, &bytes, &n);
        if (r == CALL_DRAINED)
            continue;
        if (r == 0)
            return error_of_call(e, k);
        if (r == -ETIMEDOUT) { /* a live daemon would have sent a heartbeat (BEAT-3) */
            conn_give_up(k->conn);
            r = -ECONNRESET;
        }
        if (r < 0)
            return failed_wait(c, r, e);
        if (!s->on_packed || !s->on_packed(s, bytes, n, next)) {
            if (unpack(s->method->response, bytes, n, &m, e) < 0)
                return -(int)BERM_MALFORMED;
            *next = s->on_message(s, m);
            berm_free(m);
        }
        until_us = clock_us() + (uint64_t)c->silence_ms * 1000;
    }
    return 0;
}

static int stream_once(struct berm_client *c, struct stream *s, enum stream_next *next,
                       struct berm_error *e) {
    struct call k;
    size_t n;
    int r = connect_now(c, 0, e);
    if (r < 0)
        return r;
    if (s->on_begin)
        s->on_begin(s);
    AUTO_FREE uint8_t *body = NULL;
    r = pack(s->request, &body, &n, e);
    if (r < 0)
        return r;
    if (call_begin(&k, c->conn, s->method->path, body, n, 0) < 0)
        return failed_wait(c, -ECONNRESET, e);
    if (s->on_send)
        call_keep_open(&k);
    r = stream_messages(c, s, &k, &body, next, e);
    call_done(&k);
    return r;
}

/* Returns whether the attempt made progress: it delivered a message, or lasted longer than a
 * heartbeat interval. Progress resets the retry count. */
static bool was_good(const struct stream *s, uint64_t given, uint64_t began_us) {
    uint64_t heartbeat_us = (uint64_t)limit_table[LIMIT_HEARTBEAT].value * 1000;
    return s->given > given || clock_us() - began_us > heartbeat_us;
}

int client_stream(struct berm_client *c, struct stream *s, struct berm_error *e) {
    struct berm_error unwanted;
    unsigned attempt = 0;
    if (!e)
        e = &unwanted;
    for (;;) {
        enum stream_next next = STREAM_MORE;
        uint64_t given = s->given, began_us = clock_us();
        int r = stream_once(c, s, &next, e);
        if (r == 0 && next != STREAM_AGAIN)
            return 0;
        if (r < 0 && !(s->resumes && may_repeat(e, s->has_request_id)))
            return r;
        attempt = was_good(s, given, began_us) ? 1 : attempt + 1;
        if (attempt >= (unsigned)limit_table[LIMIT_RETRY_ATTEMPTS].value)
            return r < 0 ? r : error_set(e, BERM_SHUTTING_DOWN, "the stream ends again and again");
        if (wait_until(clock_us() + backoff_us(attempt), &c->waker) < 0)
            return cancelled(e);
    }
}

struct plain_stream {
    struct stream stream;
    berm_on_message on_message;
    void *user;
    int result;
};

static enum stream_next plain_message(struct stream *s, const ProtobufCMessage *m) {
    struct plain_stream *p = container_of(s, struct plain_stream, stream);
    p->result = p->on_message(m, p->user);
    return p->result == 0 ? STREAM_MORE : STREAM_STOP;
}

int berm_stream(struct berm_client *c, const struct berm_method *m, const void *request,
                berm_on_message on_message, void *user, struct berm_error *e) {
    struct plain_stream p = {
        .stream = {.method = m, .request = request, .on_message = plain_message},
        .on_message = on_message,
        .user = user,
    };
    int r = client_stream(c, &p.stream, e);
    return r < 0 ? r : p.result;
}
