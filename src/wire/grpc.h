/* grpc — what gRPC adds to HTTP/2: message prefixes, timeouts, statuses. Bytes in, bytes out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "wire/gzip.h"

#define GRPC_PREFIX_BYTES 5

/* Takes messages out of a body that may be cut anywhere. A message that arrives in one piece is
 * lent as it lies in the input; only one that is split is copied. */
struct grpc_reader {
    struct buf partial;       /* prefix and what there is of the message */
    size_t max_message_bytes; /* of the message itself, compressed or not */
};

enum grpc_read {
    GRPC_READ_MORE,
    GRPC_READ_MESSAGE,
    GRPC_READ_TOO_LARGE,
    GRPC_READ_BAD,
    GRPC_READ_NO_MEMORY
};

struct grpc_frame {
    const uint8_t *bytes; /* valid until the next call on the reader */
    size_t n;
    bool compressed;
};

void grpc_reader_init(struct grpc_reader *r, size_t max_message_bytes);
void grpc_reader_done(struct grpc_reader *r);
/* Advances *at; MESSAGE fills ret_frame, and the caller asks again with the rest of the input. The
 * declared length is held against the limit before anything is kept. */
enum grpc_read grpc_reader_next(struct grpc_reader *r, const uint8_t **at, const uint8_t *end,
                                struct grpc_frame *ret_frame);
/* Bytes of an unfinished message; not zero at the end of a body means it was cut short. */
size_t grpc_reader_pending(const struct grpc_reader *r);

void grpc_put_prefix(uint8_t out[GRPC_PREFIX_BYTES], bool compressed, size_t n);

/* "100m" and the like → microseconds. -EINVAL. */
MUST_USE int grpc_parse_timeout(struct str text, uint64_t *ret_us);

/* Percent-encoding of grpc-message, into the arena. Empty when memory is short. */
struct str grpc_encode_message(struct str text, struct arena *arena);

/* A google.protobuf.Any to put into a status. */
struct grpc_detail {
    struct str type_url;
    const uint8_t *bytes;
    size_t n;
};

/* grpc-status-details-bin: google.rpc.Status in base64, into the arena. Empty when memory is short. */
struct str grpc_encode_status(enum grpc_code code, struct str message,
                              const struct grpc_detail *details, size_t n_details,
                              struct arena *arena);

/* What an error of ours says in its details: google.rpc.ErrorInfo (reason, domain "berm", and in
 * the metadata retry, the limit met and whose error it is) and, for a named field, google.rpc.BadRequest. Returns how many were made. */
#define GRPC_ERROR_DETAILS 2
size_t grpc_error_details(const struct err *e, struct arena *arena,
                          struct grpc_detail ret_details[GRPC_ERROR_DETAILS]);
