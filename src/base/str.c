#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

bool str_ends(struct str a, struct str suffix) {
    return a.n >= suffix.n && memcmp(a.p + a.n - suffix.n, suffix.p, suffix.n) == 0;
}

bool str_is_nocase(struct str a, struct str b) {
    return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

bool str_split(struct str *rest, char sep, struct str *ret_part) {
    if (!rest->p)
        return false;
    const char *at = memchr(rest->p, sep, rest->n);
    if (!at) {
        *ret_part = *rest;
        *rest = (struct str){0};
        return true;
    }
    size_t n = (size_t)(at - rest->p);
    *ret_part = (struct str){rest->p, n};
    *rest = (struct str){at + 1, rest->n - n - 1};
    return true;
}

struct str str_trim(struct str s) {
    while (s.n > 0 && isspace((unsigned char)s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && isspace((unsigned char)s.p[s.n - 1]))
        s.n--;
    return s;
}

int str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret_value) {
    if (s.n == 0)
        return -EINVAL;
    uint64_t value = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned digit = (unsigned char)s.p[i] - '0';
        if (digit > 9)
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return -ERANGE;
    }
    if (value < min || value > max)
        return -ERANGE;
    *ret_value = value;
    return 0;
}

char *str_put_u64(char *out, uint64_t value) {
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0)
        *out++ = digits[--n];
    return out;
}

/* Returns the length of the sequence that starts with `lead`, and the range of its second byte
 * (Unicode table 3-7). Checking that range excludes overlong forms, surrogates and code points
 * above U+10FFFF. */
static size_t str_sequence_of(uint8_t lead, uint8_t *ret_low, uint8_t *ret_high) {
    *ret_low = 0x80;
    *ret_high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef) {
        if (lead == 0xe0)
            *ret_low = 0xa0;
        if (lead == 0xed)
            *ret_high = 0x9f;
        return 3;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if (lead == 0xf0)
            *ret_low = 0x90;
        if (lead == 0xf4)
            *ret_high = 0x8f;
        return 4;
    }
    return 0;
}

bool str_is_padded(const char *field, size_t size) {
    size_t n = strnlen(field, size);
    if (n == size)
        return false;
    for (; n < size; n++)
        if (field[n] != '\0')
            return false;
    return true;
}

/* Length of the well-formed sequence of two bytes or more at p; 0: there is none. */
static size_t str_sequence_at(const uint8_t *p, const uint8_t *end) {
    uint8_t low, high;
    size_t len = str_sequence_of(*p, &low, &high);
    if (len == 0 || (size_t)(end - p) < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

void str_clean(char *text, char by) {
    uint8_t *p = (uint8_t *)text;
    const uint8_t *end = p + strlen(text);
    while (p < end) {
        size_t len = *p < 0x80 ? 1 : str_sequence_at(p, end);
        bool is_control = *p < 0x20 || *p == 0x7f || (len == 2 && p[0] == 0xc2 && p[1] < 0xa0);
        if (len == 0 || is_control)
            memset(p, by, MAX(len, (size_t)1));
        p += MAX(len, (size_t)1);
    }
}

bool str_is_utf8(const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    const uint8_t *end = p + n;
    while (p < end) {
        uint64_t eight;
        if ((size_t)(end - p) >= sizeof eight) { /* ASCII, eight bytes at a time */
            memcpy(&eight, p, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                p += sizeof eight;
                continue;
            }
        }
        if (*p < 0x80) {
            p++;
            continue;
        }
        size_t len = str_sequence_at(p, end);
        if (len == 0)
            return false;
        p += len;
    }
    return true;
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(const void *bytes, size_t n, char *out) {
    const uint8_t *in = bytes;
    char *at = out;
    for (; n >= 3; n -= 3, in += 3) {
        *at++ = base64_digits[in[0] >> 2];
        *at++ = base64_digits[(in[0] & 3) << 4 | in[1] >> 4];
        *at++ = base64_digits[(in[1] & 15) << 2 | in[2] >> 6];
        *at++ = base64_digits[in[2] & 63];
    }
    if (n > 0) {
        *at++ = base64_digits[in[0] >> 2];
        *at++ = base64_digits[(in[0] & 3) << 4 | (n == 2 ? in[1] >> 4 : 0)];
        if (n == 2)
            *at++ = base64_digits[(in[1] & 15) << 2];
    }
    return (size_t)(at - out);
}

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    if (c == '/' || c == '_')
        return 63;
    return -1;
}

ssize_t base64_decode(const char *text, size_t n, uint8_t *out) {
    if (n % 4 == 0)
        for (int pad = 0; pad < 2 && n > 0 && text[n - 1] == '='; pad++)
            n--;
    if (n % 4 == 1)
        return -EINVAL;
    uint8_t *at = out;
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        int value = base64_value(text[i]);
        if (value < 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 == 3) {
            *at++ = (uint8_t)(bits >> 16);
            *at++ = (uint8_t)(bits >> 8);
            *at++ = (uint8_t)bits;
        }
    }
    if (n % 4 == 2)
        *at++ = (uint8_t)(bits >> 4);
    if (n % 4 == 3) {
        *at++ = (uint8_t)(bits >> 10);
        *at++ = (uint8_t)(bits >> 2);
    }
    return at - out;
}

void hex_encode(const uint8_t *bytes, size_t n, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

bool bytes_equal_secret(const void *a, const void *b, size_t n) {
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    uint8_t diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= x[i] ^ y[i];
    return diff == 0;
}
