#include "base/buf.h"

#include <errno.h>

#include "harness.h"

TEST(buf_is_first_in_first_out) {
    struct buf b;
    buf_init(&b, 100);
    CHECK_INT(buf_append(&b, "hello ", 6), 0);
    CHECK_INT(buf_append(&b, "world", 5), 0);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "hello world", 11);
    buf_consume(&b, 6);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "world", 5);
    buf_truncate(&b, 3);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "wor", 3);
    buf_consume(&b, 3);
    CHECK_INT(buf_len(&b), 0);
    buf_done(&b);
}

TEST(buf_append_past_the_maximum_fails_and_changes_nothing) {
    struct buf b;
    uint8_t *at;
    buf_init(&b, 8);
    CHECK_INT(buf_append(&b, "12345678", 8), 0);
    CHECK_INT(buf_append(&b, "9", 1), -ENOBUFS);
    CHECK_INT(buf_reserve(&b, SIZE_MAX, &at), -ENOBUFS);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "12345678", 8);
    buf_consume(&b, 1);
    CHECK_INT(buf_append(&b, "9", 1), 0);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "23456789", 8);
    buf_done(&b);
}

TEST(buf_keeps_order_while_it_wraps_and_grows) {
    struct buf b;
    uint8_t in = 0, out = 0;
    buf_init(&b, 1000);
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < round % 37 && buf_available(&b) > 0; i++, in++)
            CHECK_INT(buf_append(&b, &in, 1), 0);
        for (int i = 0; i < round % 31 && buf_len(&b) > 0; i++, out++) {
            CHECK_INT(*buf_data(&b), out);
            buf_consume(&b, 1);
        }
    }
    buf_done(&b);
}

TEST(buf_survives_memory_running_out) {
    struct buf b;
    buf_init(&b, 1000);
    CHECK_INT(buf_append(&b, "abc", 3), 0);
    alloc_fail_at(1);
    char big[500] = {0};
    CHECK_INT(buf_append(&b, big, sizeof big), -ENOMEM);
    CHECK_BYTES(buf_data(&b), buf_len(&b), "abc", 3);
    alloc_fail_at(0);
    buf_trim(&b);
    CHECK_INT(buf_len(&b), 3);
    buf_clear(&b);
    buf_trim(&b);
    CHECK(b.block == NULL);
}
