/* transcript — a bounded text log of the messages between bermd and one guest.
 *
 * Format:  one line per message: time, direction, JSON. The size replaces values of environment
 *          variables, file contents and input, so that everybody who may see the sandbox may read
 *          the file.
 * Owner:   its sandbox, or the pool until a sandbox takes the link.
 * Bounds:  max_bytes of the file; beyond that the older half of its lines is dropped. Lines are
 *          buffered up to 16 KiB or until transcript_flush.
 * Errors:  a write that fails is logged once and never fails a request. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct transcript;

/* Creates the file below `dir_fd` (borrowed) at the first write. If dir_fd is -1, writes start
 * after transcript_set_dir. Returns NULL if there is no memory. */
struct transcript *transcript_open(int dir_fd, const char *name, int64_t max_bytes);
void transcript_set_dir(struct transcript *t, int dir_fd);
void transcript_close(struct transcript *t); /* flushes first */

enum transcript_way { TRANSCRIPT_SENT, TRANSCRIPT_GOT };
/* Adds one JSON-RPC message. If `message` is not JSON, writes only its size. */
void transcript_add(struct transcript *t, enum transcript_way way, struct str message,
                    size_t n_fds);
void transcript_flush(struct transcript *t);
