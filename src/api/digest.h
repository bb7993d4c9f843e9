/* digest — a short name for what a request says; the only file that includes xxhash.h.
 *
 * Equal messages of one path from one caller have equal digests. It is no proof against somebody who
 * looks for collisions: see docs/decisions/0032-xxhash.md for why nobody gains by that. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

#include "base/str.h"

#define DIGEST_BYTES 16

/* Over `salt`, `path` and the packed message with the fields of these names left out. A name the
 * message does not have is passed over. */
void digest_message(struct str salt, struct str path, const ProtobufCMessage *m,
                    const char *const *without, size_t n_without, uint8_t out[DIGEST_BYTES]);
