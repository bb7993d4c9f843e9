/* transcript — what was said between bermd and one guest, in plain text, bounded.
 *
 * One line per message: time, direction, the JSON. Values of environment variables, file contents and
 * input are left out (replaced by their size), so the file can be shown to anyone who may see the
 * sandbox. When the file would pass its bound the older half goes, at a line's end.
 * Lines gather in memory and are written with transcript_flush or at 16 KiB; a failure to write is
 * logged once and never fails a request. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct transcript;

/* The file is made beneath `dir_fd` (borrowed) when the first line is written; -1: not before
 * transcript_set_dir has told where. NULL: no memory. */
struct transcript *transcript_open(int dir_fd, const char *name, int64_t max_bytes);
void transcript_set_dir(struct transcript *t, int dir_fd);
void transcript_close(struct transcript *t); /* flushes */

enum transcript_way { TRANSCRIPT_SENT, TRANSCRIPT_GOT };
/* `message` is one JSON-RPC message; what is not JSON is written as its size alone. */
void transcript_add(struct transcript *t, enum transcript_way way, struct str message,
                    size_t n_fds);
void transcript_flush(struct transcript *t);
