#include "base/str.h"

#include <errno.h>
#include <stdio.h>

#include "harness.h"

TEST(str_compares_and_splits) {
    struct str rest = STR("a,,b"), part;
    CHECK(str_is(STR("abc"), str_of("abc")));
    CHECK(!str_is(STR("abc"), STR("abd")));
    CHECK(str_is_nocase(STR("LocalHost"), STR("localhost")));
    CHECK(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")));
    CHECK(str_ends(STR("x-bin"), STR("-bin")) && !str_ends(STR("bin"), STR("-bin")));
    CHECK(str_split(&rest, ',', &part) && str_is(part, STR("a")));
    CHECK(str_split(&rest, ',', &part) && part.n == 0);
    CHECK(str_split(&rest, ',', &part) && str_is(part, STR("b")));
    CHECK(!str_split(&rest, ',', &part));
    CHECK(str_is(str_trim(STR(" \t a b\n")), STR("a b")));
    CHECK_INT(str_trim(STR("  ")).n, 0);
}

TEST(str_numbers_are_exact_or_refused) {
    uint64_t v = 7;
    char digits[21] = {0};
    CHECK_INT(str_to_u64(STR("18446744073709551615"), 0, UINT64_MAX, &v), 0);
    CHECK(v == UINT64_MAX);
    CHECK_INT(str_to_u64(STR("18446744073709551616"), 0, UINT64_MAX, &v), -ERANGE);
    CHECK_INT(str_to_u64(STR(""), 0, 9, &v), -EINVAL);
    CHECK_INT(str_to_u64(STR("-1"), 0, 9, &v), -EINVAL);
    CHECK_INT(str_to_u64(STR("1x"), 0, 9, &v), -EINVAL);
    CHECK_INT(str_to_u64(STR("10"), 0, 9, &v), -ERANGE);
    CHECK_INT(str_to_u64(STR("0"), 1, 9, &v), -ERANGE);
    CHECK(v == UINT64_MAX); /* unchanged on failure */
    CHECK_INT(str_put_u64(digits, UINT64_MAX) - digits, 20);
    CHECK_STR(digits, "18446744073709551615");
    CHECK_INT(str_put_u64(digits, 0) - digits, 1);
}

TEST(str_utf8_check_follows_the_unicode_table) {
    static const struct {
        const char *bytes;
        size_t n;
        bool good;
    } cases[] = {
        {"", 0, true},
        {"plain ascii text, long enough", 29, true},
        {"\xc3\xa9", 2, true},
        {"\xe2\x82\xac", 3, true},
        {"\xf0\x9f\x98\x80", 4, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"a\0b", 3, true},
        {"\x80", 1, false},
        {"\xc0\x80", 2, false},         /* overlong */
        {"\xe0\x80\x80", 3, false},     /* overlong */
        {"\xed\xa0\x80", 3, false},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, false}, /* beyond U+10FFFF */
        {"\xf5\x80\x80\x80", 4, false},
        {"\xe2\x82", 2, false}, /* truncated */
        {"\xff", 1, false},
        {"1234567\xc3", 8, false},
        {"12345678\xc3\x28", 10, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK_INT(str_is_utf8(cases[i].bytes, cases[i].n) + 10 * (int)i,
                  cases[i].good + 10 * (int)i);
}

TEST(str_base64_round_trips) {
    uint8_t bytes[256], back[300];
    char text[400];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)(i * 7);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        size_t len = base64_encode(bytes, n, text);
        CHECK_INT(len, BASE64_BYTES(n));
        CHECK_INT(base64_decode(text, len, back), n);
        CHECK(memcmp(bytes, back, n) == 0);
    }
    CHECK_INT(base64_decode("aGk=", 4, back), 2);
    CHECK_INT(base64_decode("aA==", 4, back), 1);
    CHECK_INT(base64_decode("-_-_", 4, back), 3);
    CHECK(base64_decode("a", 1, back) < 0);
    CHECK(base64_decode("a===", 4, back) < 0);
    CHECK(base64_decode("ab=c", 4, back) < 0);
    CHECK(base64_decode("a b=", 4, back) < 0);
}

TEST(str_encodes_hex_and_compares_secrets) {
    char text[5] = {0};
    hex_encode((const uint8_t *)"\x0f\xa0", 2, text);
    CHECK_STR(text, "0fa0");
    CHECK(bytes_equal_secret("abc", "abc", 3));
    CHECK(!bytes_equal_secret("abc", "abd", 3));
    CHECK(!bytes_equal_secret("bbc", "abc", 3));
}

TEST(str_padded_field_ends_in_zeros) {
    CHECK(str_is_padded("ab\0\0", 4) && str_is_padded("\0\0", 2));
    CHECK(!str_is_padded("abcd", 4)); /* no NUL */
    CHECK(!str_is_padded("a\0b\0", 4));
}

TEST(str_clean_overwrites_controls_and_broken_bytes) {
    static const struct {
        const char *text, *clean;
    } cases[] = {
        {"plain text", "plain text"},
        {"a\tb\n\033[31mred\177", "a?b??[31mred?"},
        {"gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "31m",
         "??31m"},                                    /* C1 as UTF-8 */
        {"\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0"}, /* the first and last of them */
        {"\x9b"
         "31m",
         "?31m"},           /* C1 as a raw byte */
        {"\xe2\x82", "??"}, /* truncated */
        {"\xc0\x9b\xff", "???"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        str_clean(text, '?');
        CHECK_STR(text, cases[i].clean);
    }
}
