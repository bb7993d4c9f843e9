/* rpc — JSON-RPC 2.0 messages on a byte stream, without I/O: framing, envelope, descriptors.
 *
 * Both ends of the guest link use it. Bytes from a socket or pipe go into rpc_in, and complete
 * messages come out. Replies and notifications are written to a buf, with the framing that the peer
 * uses.
 * Framing: one message per line, or `Content-Length: N` and an empty line before N bytes. A message
 *          starts with `{` or `[` and a header with a letter, so each message may use either form.
 * Fds:     queue in order of arrival. A message claims its descriptors from the front of the queue.
 *          rpc_in_claim fails if a message leaves some of its own descriptors unclaimed.
 * Bounds:  max_bytes per message, RPC_HEADER_MAX per header, RPC_FDS_MAX queued descriptors.
 * Errors:  after -EMSGSIZE or -EBADMSG from rpc_in_next the stream is unusable; see
 *          rpc_in_resync. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define RPC_HEADER_MAX 1024
#define RPC_FDS_MAX 64        /* maximum number of queued descriptors */
#define RPC_MESSAGE_FDS_MAX 8 /* maximum number of descriptors per message */
#define RPC_ID_MAX INT64_C(9007199254740991)

enum rpc_framing { RPC_LINES, RPC_LENGTH };

struct rpc_in {
    struct buf bytes;
    size_t max_bytes;
    enum rpc_framing framing; /* framing of the last message */
    size_t scanned;           /* bytes already searched for a line end, without success */
    size_t taken;         /* size of the message lent to the caller; the next call consumes it */
    uint64_t offset;      /* stream offset of the first byte in `bytes` */
    uint64_t message_end; /* stream offset after the message lent to the caller */
    struct {
        int fd;
        uint64_t end; /* stream offset after the bytes that arrived with `fd` */
    } fds[RPC_FDS_MAX];
    size_t n_fds;
};

void rpc_in_init(struct rpc_in *in, size_t max_bytes);
/* Closes the descriptors that no message claimed. */
void rpc_in_done(struct rpc_in *in);

/* Returns the address of free space for at most `want` new bytes. After reading into it, call
 * rpc_in_commit with their number. Fails with -ENOMEM. */
MUST_USE int rpc_in_reserve(struct rpc_in *in, size_t want, uint8_t **ret_at);
void rpc_in_commit(struct rpc_in *in, size_t n);
/* Takes ownership of the descriptors that arrived with the bytes just committed. Fails with
 * -EMSGSIZE, and closes them, when too many are queued. */
MUST_USE int rpc_in_take_fds(struct rpc_in *in, const int *fds, size_t n);

/* Returns 1 and the next message, which is valid until the next call, or 0 when more bytes are
 * needed. */
MUST_USE int rpc_in_next(struct rpc_in *in, struct str *ret_message);
/* Moves n descriptors of the current message to `fds`. Call it once per message. Fails with
 * -EBADMSG when fewer arrived or some would remain; all that arrived with the message are then
 * closed. */
MUST_USE int rpc_in_claim(struct rpc_in *in, size_t n, int *fds);
/* Drops buffered bytes up to the next line end. Use this for streams that cannot be reopened. */
void rpc_in_resync(struct rpc_in *in);

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESULT, RPC_ERROR };

struct rpc_message {
    enum rpc_kind kind;
    int64_t id;                /* REQUEST, RESULT, ERROR; 0 in an ERROR whose id is null */
    struct str method;         /* REQUEST, NOTIFICATION */
    const struct json *params; /* an object; NULL if absent */
    const struct json *result;
    const struct json *error;
};

/* Parses a message and checks its envelope. Fails with -EBADMSG (not JSON), -EINVAL (JSON, but not
 * a valid message; ret->id is set if it could be read), -E2BIG or -ENOMEM. */
MUST_USE int rpc_parse(struct arena *a, struct str text, struct rpc_message *ret);

/* Each function starts a message and leaves its `params` or `result` object open for writing;
 * rpc_close ends the message. The text is in `o->to`, without a frame. */
void rpc_open_request(struct json_out *o, struct buf *to, int64_t id, const char *method);
void rpc_open_notification(struct json_out *o, struct buf *to, const char *method);
void rpc_open_result(struct json_out *o, struct buf *to, int64_t id);
MUST_USE int rpc_close(struct json_out *o);
/* Writes a complete error message. id 0 is written as null; next_offset < 0 is omitted. */
MUST_USE int rpc_write_error(struct buf *to, int64_t id, const struct err *e, int64_t next_offset);
/* Writes only the `error` object, for an exit status that contains one. */
void rpc_put_error(struct json_out *o, const struct err *e, int64_t next_offset);

/* Appends `message` with its frame. Appends nothing on failure. */
MUST_USE int rpc_frame(struct buf *to, enum rpc_framing framing, struct str message);
