/* gzip — compresses and decompresses messages and streams; the only file that includes zlib.
 *
 * Bounds:  gzip_inflate stops one byte past the maximum of `out`, so a small compressed bomb cannot
 *          become a large message.
 * Memory:  struct gzip keeps its zlib state between messages, until gzip_free. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct gzip;

MUST_USE int gzip_new(struct gzip **ret_gzip);
void gzip_free(struct gzip *g);

/* Both append the result to `out`. They fail with -ENOBUFS when it would exceed the maximum of
 * `out`, -EBADMSG when the input is not gzip, truncated or followed by other bytes, or -ENOMEM.
 * After a failure `out` may contain a part of the result. */
MUST_USE int gzip_inflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out);
MUST_USE int gzip_deflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out);

/* Processes a stream in pieces of any size, with constant memory. */
struct gzip_stream;
enum gzip_way { GZIP_INFLATE, GZIP_DEFLATE };

struct gzip_piece {
    const uint8_t *in;
    size_t n_in;
    uint8_t *out;
    size_t n_out;
};

MUST_USE int gzip_stream_new(enum gzip_way way, struct gzip_stream **ret_stream);
void gzip_stream_free(struct gzip_stream *s);
/* Processes as much input and output as the piece allows, and advances its pointers. `is_last`
 * means that no input follows. Returns 0, or 1 where the stream may end: for inflate at the end of
 * a member (more may follow), for deflate when all output is written after the last input. Fails
 * with -EBADMSG or -ENOMEM. */
MUST_USE int gzip_stream_step(struct gzip_stream *s, struct gzip_piece *p, bool is_last);
