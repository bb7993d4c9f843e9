/* conn — one HTTP/2 connection to a daemon and its gRPC calls, for one blocking thread; the only
 * file of the client that includes nghttp2.
 *
 * Owner:   reference counted. The client holds a reference while it starts calls on this
 *          connection; each open call holds one too.
 * Waiting: only conn_step sleeps. It handles all calls of the connection, so a caller may make
 *          a call while messages of another call wait in their inbox.
 * Bounds:  an inbox holds one window (CALL_WINDOW_BYTES) beyond an incomplete message of at most
 *          CALL_MESSAGE_BYTES; the daemon can send no more until call_next takes messages.
 * Lost:    a connection that is silent for LOST_US, despite a PING, counts as lost. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "clients/c/outbox.h"
#include "clients/c/target.h"

#define CALL_WINDOW_BYTES ((size_t)1 << 20)
#define CALL_MESSAGE_BYTES ((size_t)64 << 20)

/* A descriptor to poll together with the connection; fd -1: none. */
struct waker {
    int fd;
    int (*on_wake)(void *user); /* nonzero ends the wait */
    void *user;
};

struct conn;

/* Connects to the daemon. Returns 0, or -errno after a few seconds at most. */
MUST_USE int conn_open(struct conn **ret_conn, const struct target *target);
struct conn *conn_ref(struct conn *c);
void conn_unref(struct conn *c);
/* Processes received frames, then returns whether a new call may start. */
bool conn_is_usable(struct conn *c);
/* Ends every call as if the connection had broken. */
void conn_give_up(struct conn *c);

/* One call. Its owner reads the fields after call_next has returned 0. */
struct call {
    struct conn *conn;
    int32_t id;
    /* unsent request bytes; the caller keeps them until they are sent or the call ends */
    struct loan body;
    size_t n_lent; /* bytes of the body in a frame that the kernel has not accepted completely */
    bool open;     /* more requests may follow with call_send */
    bool deferred; /* nghttp2 waits until the call has more request bytes */
    bool waits;    /* call_next returned CALL_DRAINED, and nothing was sent since */
    struct buf in; /* received bytes that call_next has not released */
    size_t lent_bytes; /* size of the message that call_next returned */
    /* received while a message in `in` is lent and must not move; take_back appends it to `in` */
    struct buf later;
    size_t window_bytes; /* received bytes not yet returned to the HTTP/2 window of the call */
    bool refused;        /* the daemon reports that it did not process the call */
    bool answered;       /* the daemon has finished its reply */
    bool ended;
    bool is_bad; /* the daemon violated the protocol */
    int http_status;
    int grpc_status; /* -1: none received */
    char message[512];
    struct buf details; /* grpc-status-details-bin as received */
};

/* Starts a call. Sends timeout_us to the daemon as the call's timeout; 0: none. Fails with -ENOMEM
 * or -ECONNRESET. */
MUST_USE int call_begin(struct call *k, struct conn *c, const char *path, const uint8_t *body,
                        size_t n, uint64_t timeout_us);
/* Call this right after call_begin if more requests follow: call_send sends each of them, and
 * call_end ends the requests. */
void call_keep_open(struct call *k);
/* Returns whether call_send may be called: all earlier requests are sent. */
static inline bool call_is_drained(const struct call *k) {
    return k->open && loan_len(&k->body) == 0 && k->n_lent == 0 && !k->answered && !k->ended;
}
/* Sends another request. The caller owns the bytes and must not change them until the call is
 * drained again. */
void call_send(struct call *k, struct loan body);
void call_end(struct call *k);

#define CALL_DRAINED 2

/* Waits for the next message. Returns:
 *   1             a message, which is valid until the next call_next
 *   CALL_DRAINED  all queued requests are sent, or the waker fired: call_send may be called
 *   0             the call has ended; its fields hold the status
 *   -ETIMEDOUT    until_us has passed; until_us 0: no timeout
 *   -ECANCELED    on_wake returned nonzero
 *   -ECONNRESET, -EPROTO  the connection failed */
MUST_USE int call_next(struct call *k, uint64_t until_us, const struct waker *w,
                       const uint8_t **ret_bytes, size_t *ret_n);
/* Ends the call, cancelling it if it is open, and releases its reference to the connection. */
void call_done(struct call *k);

/* Sleeps until until_us and polls the waker meanwhile. Returns 0 or -ECANCELED. */
MUST_USE int wait_until(uint64_t until_us, const struct waker *w);
