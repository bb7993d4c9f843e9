/* link — messages to and from the daemon: one connection at a time, on a socket that the guest listens on, or
 * on stdin and stdout.
 *
 * Owner:  the guest, for its whole life. Connections come and go; `generation` tells them apart.
 * Bounds: LINK_MESSAGE_MAX per message, LINK_OUT_MAX unsent bytes. The guest reads no request while more
 *         than LINK_OUT_BUSY bytes wait to be sent.
 * End:    on_gone, once per connection. On stdio, `ended` is true because nobody can connect again.
 * on_message may call every function of this header except link_done. */
#pragma once

#include "base/rpc.h"
#include "guest/loop.h"

#define LINK_MESSAGE_MAX ((size_t)1 << 20)
#define LINK_OUT_BUSY ((size_t)1 << 20)
#define LINK_OUT_MAX ((size_t)4 << 20)
#define LINK_OUT_FDS 64

struct link;
struct link_events {
    /* `text` is valid until the callback returns. */
    void (*on_message)(struct link *l, struct str text);
    void (*on_gone)(struct link *l, bool ended);
};

struct link {
    struct loop *loop;
    const struct link_events *events;
    struct source listener;
    struct source in;
    struct source out; /* stdout of a link on stdio; fd -1 on a socket */
    bool stdio;
    bool file_chunks; /* `hello` asked for file contents in chunks instead of descriptors */
    bool connected;
    bool failed;     /* the connection closes once the queued bytes are sent */
    bool stalled;    /* messages wait in rx until the peer has read replies */
    bool hello_done; /* `hello` has succeeded; set by its handler */
    uint64_t generation;
    struct rpc_in rx;
    struct buf tx;
    uint64_t tx_offset; /* stream offset of the first byte in tx */
    struct {
        uint64_t at;
        int fds[RPC_MESSAGE_FDS_MAX];
        size_t n;
    } tx_fds[LINK_OUT_FDS];
    size_t n_tx_fds;
    struct timer linger; /* bounds the wait for the peer of a failed connection */
};

/* Returns whether file contents travel as descriptors, not in chunks. */
static inline bool link_passes_files(const struct link *l) {
    return !l->stdio && !l->file_chunks;
}

void link_init(struct link *l, struct loop *loop, const struct link_events *events);
void link_done(struct link *l);
/* Both start the link and take ownership of the descriptors. They fail with -errno. */
MUST_USE int link_listen(struct link *l, int sock);
MUST_USE int link_stdio(struct link *l, int in, int out);

/* Frames and queues a message. Takes ownership of the descriptors, even on failure. Fails with
 * -ENOBUFS. */
MUST_USE int link_send(struct link *l, struct str message, const int *fds, size_t n_fds);
/* Frames and queues a message without descriptors. Fails with -ENOBUFS. */
MUST_USE int link_send_buf(struct link *l, const struct buf *message);
/* Returns whether too many bytes wait to be sent. Callers then hold notifications back. */
bool link_is_busy(const struct link *l);
/* Writes as much as the peer takes. Call once per turn. */
void link_flush(struct link *l);
/* Sends the queued bytes and then closes the connection. On stdio it skips to the next line instead. */
void link_fail(struct link *l);
