/* rpc — JSON-RPC 2.0 messages on a byte stream, without the stream: framing, envelope, descriptors.
 *
 * Both ends of the guest link use it: the bytes a socket or pipe gave go into rpc_in, whole messages come
 * out; answers and notifications are written into a buf and framed as the peer frames its own.
 * Framing: one message per line, or `Content-Length: N` and an empty line before N bytes; a message
 *          begins with `{` or `[`, a header with a letter, so each message may use either.
 * Fds:     queue in the order they came; a message takes its own from the front. Those that came with a
 *          message and were not claimed by it are reported as stray.
 * Bounds:  max_bytes per message, RPC_HEADER_MAX per header, RPC_FDS_MAX descriptors waiting.
 * Errors:  -EMSGSIZE and -EBADMSG end the stream; nothing after them is meaningful. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define RPC_HEADER_MAX 1024
#define RPC_FDS_MAX 64        /* waiting for their message */
#define RPC_MESSAGE_FDS_MAX 8 /* of one message */
#define RPC_ID_MAX INT64_C(9007199254740991)

enum rpc_framing { RPC_LINES, RPC_LENGTH };

struct rpc_in {
    struct buf bytes;
    size_t max_bytes;
    enum rpc_framing framing; /* of the last message */
    size_t scanned;           /* bytes known to hold no line end */
    size_t taken;             /* of the message lent out, dropped at the next call */
    uint64_t offset;          /* stream offset of the first byte in `bytes` */
    uint64_t message_end;     /* stream offset after the message lent out */
    struct {
        int fd;
        uint64_t end; /* stream offset after the bytes it came with */
    } fds[RPC_FDS_MAX];
    size_t n_fds;
};

void rpc_in_init(struct rpc_in *in, size_t max_bytes);
/* Closes descriptors nobody took. */
void rpc_in_done(struct rpc_in *in);

/* Where at most `want` new bytes may be read to, and their count afterwards. -ENOMEM. */
MUST_USE int rpc_in_reserve(struct rpc_in *in, size_t want, uint8_t **ret_at);
void rpc_in_commit(struct rpc_in *in, size_t n);
/* Descriptors that came with the bytes just committed; owned from here. -EMSGSIZE: too many wait, and
 * these were closed. */
MUST_USE int rpc_in_take_fds(struct rpc_in *in, const int *fds, size_t n);

/* 1 and the next message, lent until the next call; 0 when more bytes are needed. */
MUST_USE int rpc_in_next(struct rpc_in *in, struct str *ret_message);
/* Moves n descriptors of the present message to `fds`. -EBADMSG when there are not as many or some would
 * be left over; then all that came with it are closed. Call it once for each message. */
MUST_USE int rpc_in_claim(struct rpc_in *in, size_t n, int *fds);
/* Forgets what is buffered up to the next line end, for streams that cannot be opened again. */
void rpc_in_resync(struct rpc_in *in);

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESULT, RPC_ERROR };

struct rpc_message {
    enum rpc_kind kind;
    int64_t id;                /* REQUEST, RESULT, ERROR; 0 in an ERROR whose id is null */
    struct str method;         /* REQUEST, NOTIFICATION */
    const struct json *params; /* an object, or NULL when absent */
    const struct json *result;
    const struct json *error;
};

/* Checks the envelope. 0, -EBADMSG (not JSON), -EINVAL (JSON, no message of ours; the id, when one could
 * be read, is in ret->id), -E2BIG, -ENOMEM. */
MUST_USE int rpc_parse(struct arena *a, struct str text, struct rpc_message *ret);

/* Each opens a message whose `params`, `result` or `error` object is then open for writing; rpc_close
 * ends it. The text lies in `o->to` without a frame. */
void rpc_open_request(struct json_out *o, struct buf *to, int64_t id, const char *method);
void rpc_open_notification(struct json_out *o, struct buf *to, const char *method);
void rpc_open_result(struct json_out *o, struct buf *to, int64_t id);
MUST_USE int rpc_close(struct json_out *o);
/* A whole failure message; id 0 is written as null. next_offset < 0: absent. */
MUST_USE int rpc_write_error(struct buf *to, int64_t id, const struct err *e, int64_t next_offset);
/* The `error` object alone, for exits that carry one. */
void rpc_put_error(struct json_out *o, const struct err *e, int64_t next_offset);

/* Appends `message` with its frame, or nothing. */
MUST_USE int rpc_frame(struct buf *to, enum rpc_framing framing, struct str message);
