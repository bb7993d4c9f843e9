/* link — the conversation with the daemon: one connection at a time, on a socket the guest listens on
 * or on stdin and stdout.
 *
 * Owner:  the guest; lives as long as it.   Connections come and go; `generation` tells them apart.
 * Bounds: a message is at most LINK_MESSAGE_MAX, unsent bytes at most LINK_OUT_MAX; no request is read
 *         while more than LINK_OUT_BUSY wait to be sent.
 * Ends:   on_gone, once for each connection; stdin's end is told by `ended` as well, because nobody can
 *         connect there again. */
#pragma once

#include "base/rpc.h"
#include "guest/loop.h"

#define LINK_MESSAGE_MAX ((size_t)1 << 20)
#define LINK_OUT_BUSY ((size_t)1 << 20)
#define LINK_OUT_MAX ((size_t)4 << 20)
#define LINK_OUT_FDS 64

struct link;
struct link_events {
    /* A message; lent. May call link_send and link_fail. */
    void (*on_message)(struct link *l, struct str text);
    void (*on_gone)(struct link *l, bool ended);
};

struct link {
    struct loop *loop;
    const struct link_events *events;
    struct source listener;
    struct source in;
    struct source out; /* stdout where it is not stdin's twin */
    bool stdio;
    bool
        file_chunks; /* by hello: contents of files travel in chunks, as where descriptors cannot */
    bool connected;
    bool failed;     /* goes once what is queued is sent */
    bool stalled;    /* messages wait in rx until the peer has read answers */
    bool hello_done; /* set by the handler of hello */
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
    struct timer linger; /* a failed connection whose peer does not read */
};

/* Whether contents of files travel as descriptors. */
static inline bool link_passes_files(const struct link *l) {
    return !l->stdio && !l->file_chunks;
}

void link_init(struct link *l, struct loop *loop, const struct link_events *events);
void link_done(struct link *l);
MUST_USE int link_listen(struct link *l, int sock);
MUST_USE int link_stdio(struct link *l, int in, int out);

/* Frames and queues a message with descriptors, which are closed here whatever happens. -ENOBUFS. */
MUST_USE int link_send(struct link *l, struct str message, const int *fds, size_t n_fds);
/* Queues a whole message without descriptors. -ENOBUFS. */
MUST_USE int link_send_buf(struct link *l, const struct buf *message);
bool link_is_busy(const struct link *l);
/* Writes what can be written; once per turn. */
void link_flush(struct link *l);
/* Sends what is queued, then drops the connection; on stdio skips to the next line instead. */
void link_fail(struct link *l);
