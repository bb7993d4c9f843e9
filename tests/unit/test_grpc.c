#include "wire/grpc.h"

#include <errno.h>
#include <stdlib.h>

#include "harness.h"

/* Two messages and an empty one between them. */
static const uint8_t body[] = "\0\0\0\0\3abc\0\0\0\0\0\1\0\0\0\2hi";
#define BODY_BYTES (sizeof body - 1)

static void feed(size_t step) {
    struct grpc_reader r;
    struct grpc_frame f;
    static const char *const want[] = {"abc", "", "hi"};
    size_t n = 0;
    grpc_reader_init(&r, 100);
    for (size_t from = 0; from < BODY_BYTES; from += step) {
        const uint8_t *at = body + from;
        const uint8_t *end = body + MIN(from + step, BODY_BYTES);
        while (grpc_reader_next(&r, &at, end, &f) == GRPC_READ_MESSAGE) {
            CHECK_BYTES(f.bytes, f.n, want[n], strlen(want[n]));
            CHECK_INT(f.compressed, n == 2);
            n++;
        }
        CHECK(at == end);
    }
    CHECK_INT(n, 3);
    CHECK_INT(grpc_reader_pending(&r), 0);
    grpc_reader_done(&r);
}

TEST(grpc_reader_reassembles_split_messages) { /* covers: RPC-3 */
    for (size_t step = 1; step <= BODY_BYTES; step++)
        feed(step);
}

TEST(grpc_reader_refuses_a_length_before_it_buffers) { /* covers: RPC-5 */
    struct grpc_reader r;
    struct grpc_frame f;
    const uint8_t big[] = "\0\0\0\0\x65";
    const uint8_t bad[] = "\2\0\0\0\1x";
    const uint8_t *at = big;
    grpc_reader_init(&r, 100);
    CHECK_INT(grpc_reader_next(&r, &at, big + 5, &f), GRPC_READ_TOO_LARGE);
    CHECK_INT(f.n, 101);
    at = bad;
    CHECK_INT(grpc_reader_next(&r, &at, bad + 6, &f), GRPC_READ_BAD);
    for (size_t i = 0; i < 4; i++) { /* the same, a byte at a time */
        at = big + i;
        CHECK_INT(grpc_reader_next(&r, &at, big + i + 1, &f), GRPC_READ_MORE);
    }
    at = big + 4;
    CHECK_INT(grpc_reader_next(&r, &at, big + 5, &f), GRPC_READ_TOO_LARGE);
    grpc_reader_done(&r);
}

TEST(grpc_reader_reports_an_incomplete_message) {
    struct grpc_reader r;
    struct grpc_frame f;
    const uint8_t cut[] = "\0\0\0\0\3ab";
    const uint8_t *at = cut;
    grpc_reader_init(&r, 100);
    CHECK_INT(grpc_reader_next(&r, &at, cut + 7, &f), GRPC_READ_MORE);
    CHECK_INT(grpc_reader_pending(&r), 7);
    grpc_reader_done(&r);
}

TEST(grpc_reader_survives_memory_running_out) {
    struct grpc_reader r;
    struct grpc_frame f;
    const uint8_t *at = body;
    grpc_reader_init(&r, 100);
    alloc_fail_at(1);
    CHECK_INT(grpc_reader_next(&r, &at, body + 3, &f), GRPC_READ_NO_MEMORY);
    alloc_fail_at(0);
    grpc_reader_done(&r);
}

TEST(grpc_timeout_accepts_only_valid_values) { /* covers: RPC-8 */
    static const struct {
        const char *text;
        uint64_t us;
    } good[] = {
        {"1H", 3600000000}, {"2M", 120000000}, {"3S", 3000000}, {"4m", 4000},
        {"5u", 5},          {"6n", 1},         {"0S", 0},       {"99999999H", 359999996400000000}};
    static const char *const bad[] = {"",           "1",   "S",   "1s",   "1h",
                                      "123456789S", "-1S", "1 S", "1.5S", "1SS"};
    uint64_t us;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CHECK_INT(grpc_parse_timeout(str_of(good[i].text), &us), 0);
        CHECK_INT(us, good[i].us);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(grpc_parse_timeout(str_of(bad[i]), &us), -EINVAL);
}

TEST(grpc_message_is_percent_encoded) {
    struct arena a;
    CHECK_INT(arena_init(&a, 1024, 1 << 16), 0);
    struct str s = grpc_encode_message(STR("50% of \xc3\xa9\n~"), &a);
    CHECK_BYTES(s.p, s.n, "50%25 of %C3%A9%0A~", 19);
    arena_done(&a);
}

/* The bytes were made with protoc --encode, so a standard client can decode them. */
TEST(grpc_status_carries_error_info_and_bad_request) { /* covers: ERR-1, ERR-2 */
    static const char want[] = "\x08\x03\x12\x03"
                               "bad"
                               "\x1a\x54\x0a\x28type.googleapis.com/google.rpc.ErrorInfo\x12\x28"
                               "\x0a\x10INVALID_ARGUMENT\x12\x04"
                               "berm\x1a\x0e\x0a\x05retry\x12\x05never"
                               "\x1a\x3a\x0a\x29type.googleapis.com/google.rpc.BadRequest\x12\x0d"
                               "\x0a\x0b\x0a\x04spec\x12\x03"
                               "bad";
    struct arena a;
    struct err e;
    struct grpc_detail details[GRPC_ERROR_DETAILS];
    uint8_t bytes[512];
    CHECK_INT(arena_init(&a, 4096, 1 << 16), 0);
    err_field(&e, "spec", "bad");
    size_t n = grpc_error_details(&e, &a, details);
    CHECK_INT(n, 2);
    struct str text = grpc_encode_status(GRPC_INVALID_ARGUMENT, STR("bad"), details, n, &a);
    ssize_t len = base64_decode(text.p, text.n, bytes);
    CHECK(len > 0);
    CHECK_BYTES(bytes, len, want, sizeof want - 1);
    arena_done(&a);
}

TEST(grpc_error_info_names_the_limit_and_the_object) { /* covers: SIZE-2, ERR-4 */
    struct arena a;
    struct err e;
    struct grpc_detail details[GRPC_ERROR_DETAILS];
    static const char want[] = "\x0a\x11MESSAGE_TOO_LARGE\x12\x04"
                               "berm\x1a\x0e\x0a\x05retry\x12\x05never"
                               "\x1a\x18\x0a\x05limit\x12\x0fmessage.inbound"
                               "\x1a\x11\x0a\x0blimit_value\x12\x02"
                               "42\x1a\x13\x0a\x0asandbox_id\x12\x05sb-77"
                               "\x1a\x10\x0a\x0bnext_offset\x12\x01"
                               "7\x1a\x10\x0a\x0a"
                               "end_offset\x12\x02-1";
    CHECK_INT(arena_init(&a, 4096, 1 << 16), 0);
    err_limit(&e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND, 42, "too large");
    CHECK_INT(err_about(&e, "sandbox_id", "sb-77"), -ERR_MESSAGE_TOO_LARGE);
    CHECK_INT(err_number(&e, "next_offset", 7), -ERR_MESSAGE_TOO_LARGE);
    CHECK_INT(err_number(&e, "end_offset", -1), -ERR_MESSAGE_TOO_LARGE);
    CHECK_INT(grpc_error_details(&e, &a, details), 1);
    CHECK_BYTES(details[0].bytes, details[0].n, want, sizeof want - 1);
    arena_done(&a);
}

TEST(grpc_status_survives_memory_running_out_anywhere) {
    struct err e;
    err_field(&e, "spec", "bad");
    for (unsigned n = 1;; n++) {
        struct arena a;
        struct grpc_detail details[GRPC_ERROR_DETAILS];
        CHECK_INT(arena_init(&a, 64, 1 << 16), 0);
        alloc_fail_at(n);
        size_t count = grpc_error_details(&e, &a, details);
        struct str text = grpc_encode_status(GRPC_INTERNAL, STR("x"), details, count, &a);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        arena_done(&a);
        if (!failed) {
            CHECK(text.n > 0);
            break;
        }
        CHECK(count <= 2);
    }
}
