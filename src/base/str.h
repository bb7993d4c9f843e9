/* str — slices of text, encodings, and validity checks for input. */
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
/* Removes the part before the first `sep` from the front of `rest`. Returns false when `rest` is
 * used up. */
bool str_split(struct str *rest, char sep, struct str *ret_part);
struct str str_trim(struct str s);

/* Parses a whole number in [min, max] that consists of digits only. */
MUST_USE int str_to_u64(struct str s, uint64_t min, uint64_t max, uint64_t *ret_value);
/* Writes decimal digits to `out`, which must have space for 20 bytes. Returns the end. Adds no
 * NUL. */
char *str_put_u64(char *out, uint64_t value);

/* Returns whether the bytes are well-formed UTF-8 without surrogates. NUL is allowed; callers check
 * for it where it matters. */
bool str_is_utf8(const void *bytes, size_t n);
/* Makes text from a hostile source fit for a terminal: overwrites control characters (C0, DEL, C1)
 * and bytes that are not UTF-8 with `by`. A terminal may take a lone byte 0x9b for the start of a
 * command. */
void str_clean(char *text, char by);

/* Returns whether a fixed-size field contains a NUL-terminated text followed only by zeros. Then
 * equal texts have equal bytes. */
bool str_is_padded(const char *field, size_t size);

/* Encodes base64 without padding. `out` must have space for BASE64_BYTES(n). Returns the length. */
#define BASE64_BYTES(n) (((n)*4 + 2) / 3)
size_t base64_encode(const void *bytes, size_t n, char *out);
/* Decodes the standard or the URL alphabet, padded or not. `out` must have space for n * 3 / 4 + 3.
 * Returns a negative value when the text is not base64. */
ssize_t base64_decode(const char *text, size_t n, uint8_t *out);

void hex_encode(const uint8_t *bytes, size_t n, char *out);
/* Compares in constant time: the duration depends only on n. */
bool bytes_equal_secret(const void *a, const void *b, size_t n);
