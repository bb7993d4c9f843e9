/* digest — a hash of a request's contents; the only file that includes xxhash.h.
 *
 * Equal requests of one caller to one method have equal digests. The hash is not cryptographic: a
 * caller can construct collisions, but gains nothing from them (docs/decisions/0032-xxhash.md). */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

#include "base/str.h"

#define DIGEST_BYTES 16

/* Hashes `salt`, `path` and the packed message without the fields of these names. Ignores names
 * that the message does not have. */
void digest_message(struct str salt, struct str path, const ProtobufCMessage *m,
                    const char *const *without, size_t n_without, uint8_t out[DIGEST_BYTES]);
