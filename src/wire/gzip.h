/* gzip — messages and streams in and out of gzip; the only file that includes zlib.
 *
 * Bounds:  inflating stops one byte past the buffer's maximum, so a small bomb cannot become a big
 *          message. Both keep their zlib state between messages and are freed by gzip_free. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct gzip;

MUST_USE int gzip_new(struct gzip **ret_gzip);
void gzip_free(struct gzip *g);

/* Append the result to `out`. -ENOBUFS: it would exceed out's maximum; -EBADMSG: not gzip, cut short
 * or with something behind it; -ENOMEM. On failure `out` may hold a part. */
MUST_USE int gzip_inflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out);
MUST_USE int gzip_deflate(struct gzip *g, const uint8_t *bytes, size_t n, struct buf *out);

/* A stream in pieces of any size, with constant memory. */
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
/* Moves on as far as the piece's input and output go, and takes off it what was used. `is_last`: no input
 * follows. 0; 1 where the stream may end: inflating, at the end of a member (others may follow);
 * deflating, when all is out after the last input. -EBADMSG, -ENOMEM. */
MUST_USE int gzip_stream_step(struct gzip_stream *s, struct gzip_piece *p, bool is_last);
