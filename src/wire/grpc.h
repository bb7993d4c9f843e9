/* grpc — the gRPC parts on top of HTTP/2: message prefixes, timeouts, statuses. No I/O. */
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

/* Extracts messages from a body that arrives in arbitrary pieces. A message that arrives whole is a
 * slice of the input; only a split message is copied. */
struct grpc_reader {
    struct buf partial;       /* prefix and first part of a split message */
    size_t max_message_bytes; /* maximum size as sent, compressed or not */
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
/* Advances *at. On GRPC_READ_MESSAGE fills ret_frame; call again with the rest of the input. Checks
 * the declared length against the limit before it buffers anything. */
enum grpc_read grpc_reader_next(struct grpc_reader *r, const uint8_t **at, const uint8_t *end,
                                struct grpc_frame *ret_frame);
/* Bytes of an incomplete message. Nonzero at the end of a body means that the message is
 * truncated. */
size_t grpc_reader_pending(const struct grpc_reader *r);

void grpc_put_prefix(uint8_t out[GRPC_PREFIX_BYTES], bool compressed, size_t n);

/* Parses a timeout such as "100m" into microseconds. Fails with -EINVAL. */
MUST_USE int grpc_parse_timeout(struct str text, uint64_t *ret_us);

/* Percent-encodes grpc-message into the arena. Returns an empty string when out of memory. */
struct str grpc_encode_message(struct str text, struct arena *arena);

/* A google.protobuf.Any in the details of a status. */
struct grpc_detail {
    struct str type_url;
    const uint8_t *bytes;
    size_t n;
};

/* Encodes the trailer grpc-status-details-bin (google.rpc.Status in base64) into the arena. Returns
 * an empty string when out of memory. */
struct str grpc_encode_status(enum grpc_code code, struct str message,
                              const struct grpc_detail *details, size_t n_details,
                              struct arena *arena);

/* Builds the details of an error: google.rpc.ErrorInfo and, if the error names a field,
 * google.rpc.BadRequest. ErrorInfo has the reason, the domain "berm", and metadata: "retry",
 * the limit that was reached, the object's id and the error's numbers. Returns the number of
 * details. */
#define GRPC_ERROR_DETAILS 2
size_t grpc_error_details(const struct err *e, struct arena *arena,
                          struct grpc_detail ret_details[GRPC_ERROR_DETAILS]);
