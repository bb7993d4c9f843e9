/* pb — decodes protobuf messages, with the checks that protobuf-c omits.
 *
 * Before protobuf-c sees a byte, pb checks the message against its descriptor: well-formed tags and
 * lengths, nesting within PB_MAX_DEPTH, strings that are UTF-8 without NUL, no groups, and no
 * duplicate singular sub-message, because protobuf-c would lose the fields of the first. Decoded
 * messages live in the arena and are freed with it. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

#define PB_MAX_DEPTH 16

/* Fails with INVALID_ARGUMENT and the field's path, or LIMIT_REACHED when the arena is too
 * small. */
MUST_USE int pb_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                       struct arena *arena, ProtobufCMessage **ret_message, struct err *e);
/* Like pb_decode, for bytes that outlive the message. A message with a single bytes field, as
 * uploads send, then points to the input instead of copying it. */
MUST_USE int pb_decode_in_place(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                size_t n, struct arena *arena, ProtobufCMessage **ret_message,
                                struct err *e);

/* One field as encoded: its number, and its bytes or its varint. */
struct pb_field {
    uint32_t id;
    bool is_bytes;
    uint64_t number;
    const uint8_t *bytes;
    size_t n;
};

/* Reads the field at *at and advances past it. Returns false when the message is malformed or the
 * wire type is neither varint nor bytes. */
MUST_USE bool pb_next_field(const uint8_t **at, const uint8_t *end, struct pb_field *ret_field);
