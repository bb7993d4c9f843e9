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

/* Creates the file beneath `dir_fd` (borrowed) at the first write. -1: not before
 * transcript_set_dir. NULL: no memory. */
struct transcript *transcript_open(int dir_fd, const char *name, int64_t max_bytes);
void transcript_set_dir(struct transcript *t, int dir_fd);
void transcript_close(struct transcript *t); /* flushes */

enum transcript_way { TRANSCRIPT_SENT, TRANSCRIPT_GOT };
/* `message` is one JSON-RPC message. Only the size is written if it is not JSON. */
void transcript_add(struct transcript *t, enum transcript_way way, struct str message,
                    size_t n_fds);
void transcript_flush(struct transcript *t);
