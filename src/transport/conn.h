/* conn — one client's socket, beneath whichever protocol its first bytes choose.
 *
 * Owner:   the server.                  Ends: its protocol hears `gone`, then it frees itself.
 * States:  waiting for first bytes → speaking a protocol → closing (what is queued still goes out).
 * Bounds:  connection.first_bytes to choose; one block of unsent bytes. */
#pragma once

#include "transport/server.h"

struct conn;

/* What a protocol does for a connection. */
struct conn_protocol {
    void (*on_bytes)(struct conn *c, const uint8_t *bytes, size_t n);
    /* What to send, with its holes, in a block of the stream's, and whether there is more than fits. */
    size_t (*pull)(struct conn *c, uint8_t *block, struct gather_list *holes, bool *ret_more);
    /* It is sent or copied: what the holes stood for may go. */
    void (*on_sent)(struct conn *c);
    void (*on_timer)(struct conn *c);
    void (*on_drain)(struct conn *c);
    /* The socket is over: end every call and free the protocol's state. */
    void (*gone)(struct conn *c);
};

struct conn {
    struct stream stream;
    struct server *server;
    const struct conn_protocol *protocol; /* NULL until chosen */
    void *state;                          /* the protocol's */
    struct list in_server;
    struct list in_dirty;
    struct call_peer peer;
    struct deadline timer;   /* first bytes, then the protocol's */
    uint64_t heard_us;       /* when the peer last sent something */
    size_t unanswered_bytes; /* heard since something was last sent, or could have been */
    uint8_t first[24];
    size_t n_first;
    bool closing; /* once what is queued has gone out */
};

/* Takes the next pending connection of `listener`, a uv pipe or TCP server. */
void conn_accept(struct server *s, uv_stream_t *listener, bool is_unix);
/* There is something to send. */
void conn_dirty(struct conn *c);
/* Close once everything queued has gone out. */
void conn_finish(struct conn *c);
/* Close now. */
void conn_close(struct conn *c);
/* Sends what the protocol has, at most one block. Called by the server before the loop sleeps. */
void conn_flush(struct conn *c);
