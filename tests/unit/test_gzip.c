#include "wire/gzip.h"

#include <errno.h>
#include <stdlib.h>

#include "harness.h"

TEST(gzip_round_trips_repeatedly) {
    struct gzip *g;
    struct buf packed, back;
    CHECK_INT(gzip_new(&g), 0);
    buf_init(&packed, 1 << 20);
    buf_init(&back, 1 << 20);
    static uint8_t bytes[200000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    for (size_t n = 0; n < sizeof bytes; n = n * 3 + 1) { /* one state serves many messages */
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

TEST(gzip_refuses_truncated_or_trailing_bytes) {
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

/* Runs `in` through a stream, in_step and out_step bytes at a time. Returns the last result. */
static int run_stream(enum gzip_way way, const uint8_t *in, size_t n, size_t in_step,
                      size_t out_step, struct buf *out) {
    struct gzip_stream *s;
    uint8_t space[4096];
    int r = gzip_stream_new(way, &s);
    for (size_t at = 0; r >= 0 && at <= n; at += in_step) {
        struct gzip_piece piece = {in + at, MIN(in_step, n - at), NULL, 0};
        bool is_last = at + in_step > n;
        do {
            piece.out = space;
            piece.n_out = out_step;
            r = gzip_stream_step(s, &piece, is_last);
            if (r >= 0 && buf_append(out, space, out_step - piece.n_out) < 0)
                r = -ENOBUFS;
        } while (r >= 0 && (piece.n_in > 0 || piece.n_out == 0));
    }
    gzip_stream_free(s);
    return r;
}

TEST(gzip_stream_round_trips_in_pieces_of_any_size) {
    static uint8_t bytes[50000];
    static const size_t steps[] = {1, 7, 1000, 4096};
    struct buf packed, back;
    buf_init(&packed, 1 << 20);
    buf_init(&back, 1 << 20);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 9);
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        for (size_t j = 0; j < COUNT_OF(steps); j++) {
            buf_clear(&packed);
            buf_clear(&back);
            CHECK_INT(run_stream(GZIP_DEFLATE, bytes, sizeof bytes, steps[i], steps[j], &packed),
                      1);
            CHECK_INT(run_stream(GZIP_INFLATE, buf_data(&packed), buf_len(&packed), steps[j],
                                 steps[i], &back),
                      1);
            CHECK_BYTES(buf_data(&back), buf_len(&back), bytes, sizeof bytes);
        }
    buf_done(&packed);
    buf_done(&back);
}

TEST(gzip_stream_accepts_several_complete_members) {
    struct buf packed, back;
    buf_init(&packed, 1000);
    buf_init(&back, 1000);
    CHECK_INT(run_stream(GZIP_DEFLATE, (const uint8_t *)"one", 3, 10, 100, &packed), 1);
    size_t first = buf_len(&packed);
    CHECK_INT(run_stream(GZIP_DEFLATE, (const uint8_t *)"two", 3, 10, 100, &packed), 1);
    CHECK_INT(run_stream(GZIP_INFLATE, buf_data(&packed), buf_len(&packed), 5, 100, &back), 1);
    CHECK_BYTES(buf_data(&back), buf_len(&back), "onetwo", 6);
    for (size_t cut = 0; cut < first; cut++)
        CHECK_INT(run_stream(GZIP_INFLATE, buf_data(&packed), cut, 100, 100, &back), 0);
    buf_data(&packed)[first] = 'x';
    CHECK_INT(run_stream(GZIP_INFLATE, buf_data(&packed), buf_len(&packed), 100, 100, &back),
              -EBADMSG);
    buf_done(&packed);
    buf_done(&back);
}
