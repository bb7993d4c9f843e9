/* guest_stream — messages with descriptors on a non-blocking Unix socket. It does not interpret
 * messages.
 *
 * Owner:   its guest_link, which polls the socket: always for reading, and for writing while
 *          is_full.
 * Bounds:  GUEST_MESSAGE_MAX per message, GUEST_UNREAD_MAX unsent bytes, RPC_FDS_MAX pending
 *          descriptors.
 * Writing: the link appends a message to `tx` and posts it. The stream sends it at once if the
 *          socket accepts it. Descriptors travel with the first byte of their message. */
#pragma once

#include "base/list.h"
#include "base/rpc.h"

#define GUEST_MESSAGE_MAX ((size_t)1 << 20) /* guest.message */
#define GUEST_UNREAD_MAX ((size_t)4 << 20)

struct guest_stream {
    int fd; /* the stream owns it */
    struct rpc_in rx;
    struct buf tx;
    uint64_t tx_offset;  /* stream offset of the first byte in tx */
    struct list parcels; /* pending descriptors, in the order of their messages */
    bool is_full;        /* the socket is not writable; tx is empty otherwise */
};

void guest_stream_init(struct guest_stream *s, int fd);
void guest_stream_done(struct guest_stream *s);
/* Drops unsent bytes and shuts the socket down. The descriptor stays open until
 * guest_stream_done. */
void guest_stream_end(struct guest_stream *s);

/* Sends the last message in tx, the bytes from `from` to the end, together with the descriptors. The
 * caller still owns the descriptors afterwards. -ENOBUFS: the stream can neither send nor queue the
 * descriptors now; it has sent no byte of the message, and the caller must cut tx back to `from`.
 * Another -errno: the stream is broken. */
MUST_USE int guest_stream_post(struct guest_stream *s, size_t from, const int *fds, size_t n_fds);
MUST_USE int guest_stream_flush(struct guest_stream *s);
/* Reads once into rx. Returns 1, or 0 if no bytes are available. -EPIPE: end of stream. -EMSGSIZE:
 * too many descriptors. */
MUST_USE int guest_stream_receive(struct guest_stream *s);
