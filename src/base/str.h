/* str — slices, text encodings and the checks every input needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"

/* Borrowed bytes, not NUL-terminated. */
struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
static inline struct str str_of(const char *s) {
    return (struct str){s, strlen(s)};
}
static inline bool str_is(struct str a, struct str b) {
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}
static inline bool str_starts(struct str a, struct str prefix) {
    return a.n >= prefix.n && memcmp(a.p, prefix.p, prefix.n) == 0;
}
bool str_ends(struct str a, struct str suffix);
bool str_is_nocase(struct str a, struct str b);
/* Takes what stands before the first `sep` off the front of `rest`; false when `rest` is used up. */
bool str_split(struct str *rest, char sep, struct str *ret_part);
struct str str_trim(struct str s);

/* Whole number in [min, max]; nothing but digits. */
MUST_USE int str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret_value);
/* Decimal digits at `out`, which has room for 20; returns one past the last. No NUL. */
char *str_put_u64(char *out, uint64_t value);

/* Well-formed UTF-8 without surrogates; NUL is allowed here, callers refuse it by name. */
bool str_is_utf8(const void *bytes, size_t n);

/* A text in a field of a fixed size: it ends, and zeros follow, so that what means the same is the same. */
bool str_is_padded(const char *field, size_t size);

/* Base64 without padding. `out` has room for BASE64_BYTES(n). Returns the length. */
#define BASE64_BYTES(n) (((n)*4 + 2) / 3)
size_t base64_encode(const void *bytes, size_t n, char *out);
/* Standard or URL alphabet, padded or not; `out` has room for n * 3 / 4 + 3. Negative: not base64. */
ssize_t base64_decode(const char *text, size_t n, uint8_t *out);

void hex_encode(const uint8_t *bytes, size_t n, char *out);
/* Compares in time that depends on n alone. */
bool bytes_equal_secret(const void *a, const void *b, size_t n);
