/* pb — bytes ↔ protobuf messages, with the checks protobuf-c leaves out.
 *
 * Before protobuf-c sees a byte, the message is walked against its descriptor: well-formed tags and
 * lengths, nesting within PB_MAX_DEPTH, strings that are UTF-8 without NUL, no group, and no
 * singular sub-message given twice (protobuf-c would lose the first one's fields).
 * Decoded messages live in the arena and go with it; nothing is freed one by one. */
#pragma once

#include <protobuf-c/protobuf-c.h>

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
