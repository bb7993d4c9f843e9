/* str — compares text encodings with simple reference implementations. */
#include "fuzz.h"

#include <errno.h>

#include "base/str.h"

/* Decodes one code point by its value. Returns 0 if it is not UTF-8. */
static size_t code_point(const uint8_t *p, size_t n) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t value = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        value = value << 6 | (p[i] & 0x3f);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return value < least[len] || value > 0x10ffff || surrogate ? 0 : len;
}

static void check_utf8(struct feed f) {
    bool good = true;
    for (size_t at = 0, len; at < f.n && good; at += len)
        good = (len = code_point(f.at + at, f.n - at)) > 0;
    CHECK(str_is_utf8(f.at, f.n) == good);
}

static void check_base64(struct feed f) {
    char *text = malloc(BASE64_BYTES(f.n) + 1);
    uint8_t *back = malloc(BASE64_BYTES(f.n) * 3 / 4 + 3);
    CHECK(text && back);
    size_t n = base64_encode(f.at, f.n, text);
    CHECK(n == BASE64_BYTES(f.n) && memchr(text, '=', n) == NULL);
    CHECK(base64_decode(text, n, back) == (ssize_t)f.n && memcmp(back, f.at, f.n) == 0);
    free(text);
    free(back);
    back = malloc(f.n * 3 / 4 + 3);
    CHECK(back);
    ssize_t r = base64_decode((const char *)f.at, f.n, back);
    CHECK(r <= (ssize_t)(f.n * 3 / 4));
    size_t n_digits = 0;
    while (n_digits < f.n && f.at[n_digits] &&
           strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_",
                  f.at[n_digits]))
        n_digits++;
    size_t n_pads = f.n - n_digits;
    for (size_t i = n_digits; i < f.n; i++)
        n_pads = f.at[i] == '=' ? n_pads : 99;
    bool good = n_digits % 4 != 1 && (n_pads == 0 || (n_pads <= 2 && f.n % 4 == 0));
    CHECK((r >= 0) == good && (r < 0 || r == (ssize_t)(n_digits * 3 / 4)));
    free(back);
}

static void check_number(struct feed f) {
    struct str s = {(const char *)f.at, f.n};
    char digits[32] = "";
    uint64_t value = 7, again;
    int r = str_to_u64(s, 10, UINT64_MAX - 1, &value);
    CHECK(r == 0 ? value >= 10 && value < UINT64_MAX
                 : value == 7 && (r == -EINVAL || r == -ERANGE));
    if (r < 0)
        return;
    size_t n = (size_t)(str_put_u64(digits, value) - digits);
    CHECK(n <= 20 && n <= f.n && str_to_u64((struct str){digits, n}, 0, UINT64_MAX, &again) == 0);
    CHECK(again == value && memcmp(digits, f.at + f.n - n, n) == 0);
}

static void check_parts(struct feed f) {
    struct str rest = {(const char *)f.at, f.n};
    struct str part;
    size_t sum = 0, n = 0;
    for (; str_split(&rest, ',', &part); n++) {
        struct str inner = str_trim(part);
        CHECK(!memchr(part.p, ',', part.n) && inner.n <= part.n);
        sum += part.n;
    }
    CHECK(n > 0 && sum + n - 1 == f.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1); /* so that reading past the end is noticed */
    CHECK(copy);
    if (size > 0)
        memcpy(copy, data, size);
    uint8_t *exact = realloc(copy, MAX(size, (size_t)1));
    struct feed f = {exact, size};
    check_utf8(f);
    check_base64(f);
    check_number(f);
    check_parts(f);
    free(exact);
    return 0;
}
