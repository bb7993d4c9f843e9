/* conn — one HTTP/2 connection to a daemon and its gRPC calls, for one blocking thread; the only
 * file of the client that includes nghttp2.
 *
 * Owner:   reference counted: the client, while it makes new calls here, and each open call.
 * Waiting: only conn_step sleeps. It handles all calls of the connection, so a call may be made
 *          while messages of another wait in its inbox.
 * Bounds:  an inbox holds one window (CALL_WINDOW_BYTES) beyond an incomplete message of at most
 *          CALL_MESSAGE_BYTES; the daemon can send no more until messages are taken.
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

/* A descriptor to poll besides the connection; -1: none. */
struct waker {
    int fd;
    int (*on_wake)(void *user); /* nonzero ends the wait */
    void *user;
};

struct conn;

/* Fails with -errno, after a few seconds at most. */
MUST_USE int conn_open(struct conn **ret_conn, const struct target *target);
struct conn *conn_ref(struct conn *c);
void conn_unref(struct conn *c);
/* Handles what has arrived meanwhile. Returns whether a new call may start. */
bool conn_is_usable(struct conn *c);
/* Ends every call as if the connection had broken. */
void conn_give_up(struct conn *c);

/* One call. Its owner reads the fields after call_next has returned 0. */
struct call {
    struct conn *conn;
    int32_t id;
    struct loan body;    /* the caller's, until it is sent or the call has ended */
    size_t n_lent;       /* of the body: in a frame that the kernel has not accepted completely */
    bool open;           /* call_send may be called */
    bool deferred;       /* HTTP/2 waits for more data */
    bool waits;          /* call_next returned CALL_DRAINED, and nothing was sent since */
    struct buf in;       /* received but not taken */
    size_t lent_bytes;   /* size of the message that call_next returned */
    struct buf later;    /* received while a message is lent, which must not move; goes to `in` */
    size_t window_bytes; /* received but not yet returned to the daemon's window */
    bool refused;        /* the daemon reports that it did not process the call */
    bool answered;       /* the daemon will send nothing more */
    bool ended;
    bool is_bad; /* the daemon violated the protocol */
    int http_status;
    int grpc_status; /* -1: none received */
    char message[512];
    struct buf details; /* grpc-status-details-bin as received */
};

/* Starts a call. The daemon gets timeout_us; 0: none. Fails with -ENOMEM or -ECONNRESET. */
MUST_USE int call_begin(struct call *k, struct conn *c, const char *path, const uint8_t *body,
                        size_t n, uint64_t timeout_us);
/* Call it right after call_begin: more requests follow with call_send, until call_end. */
void call_keep_open(struct call *k);
/* Returns whether call_send may be called: everything before is sent. */
static inline bool call_is_drained(const struct call *k) {
    return k->open && loan_len(&k->body) == 0 && k->n_lent == 0 && !k->answered && !k->ended;
}
/* The bytes stay the caller's and must not change until the call is drained again. */
void call_send(struct call *k, struct loan body);
void call_end(struct call *k);

#define CALL_DRAINED 2

/* Returns 1 and a message, lent until the next call_next; CALL_DRAINED when something may be sent,
 * because everything is sent or the waker fired; 0 at the end, then see the fields of the call;
 * -ETIMEDOUT at until_us (0: never); -ECANCELED by the waker; -ECONNRESET; -EPROTO. */
MUST_USE int call_next(struct call *k, uint64_t until_us, const struct waker *w,
                       const uint8_t **ret_bytes, size_t *ret_n);
/* Ends the call at any time and releases the connection. */
void call_done(struct call *k);

/* Sleeps while polling the waker. Returns 0 or -ECANCELED. */
MUST_USE int wait_until(uint64_t until_us, const struct waker *w);
