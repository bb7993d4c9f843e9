/* gzip — whole messages in and out of gzip; the only file that includes zlib.
 *
 * Bounds:  inflating stops one byte past the buffer's maximum, so a small bomb cannot become a big
 *          message. Both keep their zlib state between messages and are freed by gzip_free. */
#pragma once

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
