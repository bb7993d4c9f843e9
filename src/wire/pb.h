/* pb — bytes ↔ protobuf messages, with the checks protobuf-c leaves out.
 *
 * Before protobuf-c sees a byte, the message is walked against its descriptor: well-formed tags and
 * lengths, nesting within PB_MAX_DEPTH, strings that are UTF-8 without NUL, no group, and no
 * singular sub-message given twice (protobuf-c would lose the first one's fields).
 * Decoded messages live in the arena and go with it; nothing is freed one by one. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"

#define PB_MAX_DEPTH 16

/* INVALID_ARGUMENT with the field's path, or LIMIT_REACHED when the arena's cap is too small. */
MUST_USE int pb_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                       struct arena *arena, ProtobufCMessage **ret_message, struct err *e);
/* The same where the bytes stay for as long as the message: one that is nothing but bytes, as uploads are
 * made of, then points to them and copies nothing. */
MUST_USE int pb_decode_in_place(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                size_t n, struct arena *arena, ProtobufCMessage **ret_message,
                                struct err *e);

/* One field as it lies in a message: its number, and its bytes or its varint. */
struct pb_field {
    uint32_t id;
    bool is_bytes;
    uint64_t number;
    const uint8_t *bytes;
    size_t n;
};

/* Reads the field at *at and moves past it. False: the message is broken there, or it is of another sort. */
MUST_USE bool pb_next_field(const uint8_t **at, const uint8_t *end, struct pb_field *ret_field);
