/* guest_stream — messages with descriptors on a Unix socket that does not block; knows no requests.
 *
 * Owner:   its guest_link, which watches the socket: for reading always, for writing while is_full.
 * Bounds:  GUEST_MESSAGE_MAX a message, GUEST_UNREAD_MAX unsent bytes, RPC_FDS_MAX descriptors that wait.
 * Writing: a message is appended to `tx` and then posted; it goes at once when the socket takes it.
 *          Descriptors ride on the first byte of their message. */
#pragma once

#include "base/list.h"
#include "base/rpc.h"

#define GUEST_MESSAGE_MAX ((size_t)1 << 20) /* guest.message */
#define GUEST_UNREAD_MAX ((size_t)4 << 20)

struct guest_stream {
    int fd; /* owned */
    struct rpc_in rx;
    struct buf tx;
    uint64_t tx_offset;  /* stream offset of the first byte in tx */
    struct list parcels; /* descriptors that wait, in the order of their messages */
    bool is_full;        /* the socket takes no more now; else tx is empty */
};

void guest_stream_init(struct guest_stream *s, int fd);
void guest_stream_done(struct guest_stream *s);
/* Forgets what is unsent and ends the conversation; the fd stays open until _done. */
void guest_stream_end(struct guest_stream *s);

/* The message at the end of tx, from `from` on, with descriptors that stay the caller's. -ENOBUFS: they
 * can neither be sent nor kept; nothing of the message is sent, and the caller cuts it off. Else -errno: the stream is broken. */
MUST_USE int guest_stream_post(struct guest_stream *s, size_t from, const int *fds, size_t n_fds);
MUST_USE int guest_stream_flush(struct guest_stream *s);
/* Reads once into rx. 1, or 0 when there is nothing; -EPIPE: the end; -EMSGSIZE: too many
 * descriptors. */
MUST_USE int guest_stream_receive(struct guest_stream *s);
