/* conn — the socket of one client; its first bytes choose the protocol.
 *
 * Owner:   the server.                  End: calls the protocol's `gone`, then frees itself.
 * States:  waiting for first bytes → speaking a protocol → closing (queued bytes are still sent).
 * Bounds:  connection.first_bytes bounds the wait for the first bytes; one block of unsent bytes. */
#pragma once

#include "transport/server.h"

struct conn;

/* The operations of a protocol. */
struct conn_protocol {
    void (*on_bytes)(struct conn *c, const uint8_t *bytes, size_t n);
    /* Fills a block with bytes to send and their gather parts; sets ret_more when more is
     * pending. */
    size_t (*pull)(struct conn *c, uint8_t *block, struct gather_list *gather, bool *ret_more);
    /* The block was sent or copied, so the memory of gather parts may be released. */
    void (*on_sent)(struct conn *c);
    void (*on_timer)(struct conn *c);
    void (*on_drain)(struct conn *c);
    /* The socket is closed: end every call and free the protocol's state. */
    void (*gone)(struct conn *c);
};

struct conn {
    struct stream stream;
    struct server *server;
    const struct conn_protocol *protocol; /* NULL until the first bytes select it */
    void *state;                          /* owned by the protocol */
    struct list in_server;
    struct list in_dirty;
    struct call_peer peer;
    struct deadline timer;   /* bounds the wait for the first bytes; then the protocol sets it */
    uint64_t heard_us;       /* when the peer last sent bytes */
    size_t unanswered_bytes; /* received since the last flush */
    uint8_t first[24];
    size_t n_first;
    bool closing; /* close when all queued bytes are sent */
};

/* Accepts the next pending connection of `listener`, a uv pipe or TCP server. */
void conn_accept(struct server *s, uv_stream_t *listener, bool is_unix);
/* Marks the connection as having something to send. */
void conn_dirty(struct conn *c);
/* Closes the connection when all queued bytes are sent. */
void conn_finish(struct conn *c);
/* Closes the connection now. */
void conn_close(struct conn *c);
/* Sends at most one block of the protocol's pending bytes. The server calls it before the loop
 * sleeps. */
void conn_flush(struct conn *c);
