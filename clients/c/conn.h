/* conn — one HTTP/2 connection to a daemon and the gRPC calls on it, for one thread that blocks; the only
 * file of the client that includes nghttp2.
 *
 * Owner:   counted references: the client's, while it makes new calls here, and one of each open call.
 * Waiting: conn_step is the only place that sleeps. It feeds every call of the connection, so a call may
 *          be made while another's messages wait in its inbox.
 * Bounds:  an inbox holds one window (CALL_WINDOW_BYTES) beyond the message that is being gathered, which
 *          is at most CALL_MESSAGE_BYTES; the daemon may send no more until messages are taken.
 * Lost:    a connection that is silent for LOST_US, a ping in the middle of it, counts as lost. */
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

/* A descriptor to watch beside the connection; -1 = none. */
struct waker {
    int fd;
    int (*on_wake)(void *user); /* anything but 0 ends the wait */
    void *user;
};

struct conn;

/* -errno; gives up after a few seconds. */
MUST_USE int conn_open(struct conn **ret_conn, const struct target *target);
struct conn *conn_ref(struct conn *c);
void conn_unref(struct conn *c);
/* Takes in what has come meanwhile; whether a new call may be begun. */
bool conn_is_usable(struct conn *c);
/* Every call on it ends as if the connection had been cut. */
void conn_give_up(struct conn *c);

/* One call. Everything here is read by its owner once call_next has answered 0. */
struct call {
    struct conn *conn;
    int32_t id;
    struct loan body;    /* the caller's, until it is sent or the call has ended */
    size_t n_lent;       /* of the body: in a frame that is not all in the kernel yet */
    bool open;           /* call_send may bring more */
    bool deferred;       /* HTTP/2 waits for it */
    bool waits;          /* call_next has answered CALL_DRAINED, and nothing was sent since */
    struct buf in;       /* received and not taken */
    size_t lent_bytes;   /* of the message that call_next gave */
    struct buf later;    /* received while one is lent, which may not move; for `in` */
    size_t window_bytes; /* received and not yet given back to the daemon's window */
    bool refused;        /* the daemon says that it did not look at it */
    bool answered;       /* the daemon will say no more, whatever we still send */
    bool ended;
    bool is_bad; /* the daemon broke the protocol */
    int http_status;
    int grpc_status; /* -1 = none came */
    char message[512];
    struct buf details; /* grpc-status-details-bin as it came */
};

/* timeout_us is told to the daemon; 0 = none. -ENOMEM, -ECONNRESET. */
MUST_USE int call_begin(struct call *k, struct conn *c, const char *path, const uint8_t *body,
                        size_t n, uint64_t timeout_us);
/* Right after call_begin: requests follow by call_send, until call_end. */
void call_keep_open(struct call *k);
/* Whether call_send may be called: everything before it is on its way. */
static inline bool call_is_drained(const struct call *k) {
    return k->open && loan_len(&k->body) == 0 && k->n_lent == 0 && !k->answered && !k->ended;
}
/* The bytes stay the caller's, untouched until the call is drained again. */
void call_send(struct call *k, struct loan body);
void call_end(struct call *k);

#define CALL_DRAINED 2

/* 1 and a message, lent until the next call_next; CALL_DRAINED when there may be something to send: all that
 * was sent before is on its way, or the waker was heard; 0 at the end, which call fields describe;
 * -ETIMEDOUT at until_us (0 = never); -ECANCELED by the waker; -ECONNRESET; -EPROTO. */
MUST_USE int call_next(struct call *k, uint64_t until_us, const struct waker *w,
                       const uint8_t **ret_bytes, size_t *ret_n);
/* Ends it, also before its end, and lets go of the connection. */
void call_done(struct call *k);

/* Sleeps, with an eye on the waker. 0, or -ECANCELED. */
MUST_USE int wait_until(uint64_t until_us, const struct waker *w);
