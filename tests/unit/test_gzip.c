#include "wire/gzip.h"

#include <errno.h>
#include <stdlib.h>

#include "harness.h"

TEST(gzip_goes_both_ways_and_again) {
    struct gzip *g;
    struct buf packed, back;
    CHECK_INT(gzip_new(&g), 0);
    buf_init(&packed, 1 << 20);
    buf_init(&back, 1 << 20);
    static uint8_t bytes[200000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    for (size_t n = 0; n < sizeof bytes; n = n * 3 + 1) { /* the same state serves many messages */
        buf_clear(&packed);
        buf_clear(&back);
        CHECK_INT(gzip_deflate(g, bytes, n, &packed), 0);
        CHECK_INT(gzip_inflate(g, buf_data(&packed), buf_len(&packed), &back), 0);
        CHECK_BYTES(buf_data(&back), buf_len(&back), bytes, n);
    }
    buf_done(&packed);
    buf_done(&back);
    gzip_free(g);
}

TEST(gzip_bomb_stops_at_the_limit) { /* covers: RPC-5 */
    struct gzip *g;
    struct buf packed, small, exact;
    CHECK_INT(gzip_new(&g), 0);
    buf_init(&packed, 1 << 20);
    buf_init(&small, 99999);
    buf_init(&exact, 100000);
    uint8_t *zeros = calloc(1, 100000);
    CHECK_INT(gzip_deflate(g, zeros, 100000, &packed), 0);
    CHECK(buf_len(&packed) < 1000);
    CHECK_INT(gzip_inflate(g, buf_data(&packed), buf_len(&packed), &small), -ENOBUFS);
    CHECK_INT(gzip_inflate(g, buf_data(&packed), buf_len(&packed), &exact), 0);
    CHECK_INT(buf_len(&exact), 100000);
    free(zeros);
    buf_done(&packed);
    buf_done(&small);
    buf_done(&exact);
    gzip_free(g);
}

TEST(gzip_refuses_what_is_not_one_whole_gzip) {
    struct gzip *g;
    struct buf packed, out;
    CHECK_INT(gzip_new(&g), 0);
    buf_init(&packed, 1000);
    buf_init(&out, 1000);
    CHECK_INT(gzip_deflate(g, (const uint8_t *)"hello", 5, &packed), 0);
    size_t n = buf_len(&packed);
    CHECK_INT(gzip_inflate(g, (const uint8_t *)"nonsense", 8, &out), -EBADMSG);
    CHECK_INT(gzip_inflate(g, (const uint8_t *)"", 0, &out), -EBADMSG);
    for (size_t cut = 1; cut < n; cut++)
        CHECK_INT(gzip_inflate(g, buf_data(&packed), cut, &out), -EBADMSG);
    CHECK_INT(buf_append(&packed, "x", 1), 0);
    CHECK_INT(gzip_inflate(g, buf_data(&packed), n + 1, &out), -EBADMSG);
    buf_done(&packed);
    buf_done(&out);
    gzip_free(g);
}
