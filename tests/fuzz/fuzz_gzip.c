/* gzip — the output never exceeds the maximum or contains bytes of the previous message, and
 * compressed bytes round-trip. The first two bytes are the maximum. */
#include "fuzz.h"

#include <errno.h>

#include "wire/gzip.h"

static void there_and_back(struct gzip *g, struct feed f) {
    struct buf packed, plain;
    buf_init(&packed, f.n + 1024);
    buf_init(&plain, f.n);
    CHECK(gzip_deflate(g, f.at, f.n, &packed) == 0);
    CHECK(gzip_inflate(g, buf_data(&packed), buf_len(&packed), &plain) == 0);
    CHECK(buf_len(&plain) == f.n && (f.n == 0 || memcmp(buf_data(&plain), f.at, f.n) == 0));
    buf_clear(&plain);
    if (f.n > 0) {
        plain.max_bytes = f.n - 1;
        CHECK(gzip_inflate(g, buf_data(&packed), buf_len(&packed), &plain) == -ENOBUFS);
        buf_clear(&plain);
    }
    int r =
        buf_len(&packed) > 0 ? gzip_inflate(g, buf_data(&packed), buf_len(&packed) - 1, &plain) : 0;
    CHECK(r < 0);
    buf_done(&packed);
    buf_done(&plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, size};
    size_t max = (size_t)feed_byte(&f) << 8;
    max |= feed_byte(&f);
    struct gzip *g;
    struct buf first, second;
    CHECK(gzip_new(&g) == 0);
    buf_init(&first, max);
    buf_init(&second, max);
    int r = gzip_inflate(g, f.at, f.n, &first);
    CHECK(r == 0 || r == -EBADMSG || r == -ENOBUFS);
    CHECK(buf_len(&first) <= max && first.cap <= MAX(max, (size_t)64));
    there_and_back(g, f);
    CHECK(gzip_inflate(g, f.at, f.n, &second) == r);
    CHECK(buf_len(&second) == buf_len(&first));
    buf_done(&first);
    buf_done(&second);
    gzip_free(g);
    return 0;
}
