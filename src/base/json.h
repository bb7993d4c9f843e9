/* json — a small, strict JSON reader and writer (RFC 8259) for messages from hostile peers.
 *
 * Reading: json_parse checks the whole text and builds its nodes in an arena. Strings without
 *          escapes are slices of the text, so the text must outlive the nodes.
 * Bounds:  the caller gives the maximum depth, nodes, and members per object. The arena bounds the
 *          memory. The parser does not recurse.
 * Refused: duplicate members, invalid UTF-8, lone surrogates, numbers out of the range of double,
 *          data after the value. A string that contains NUL is accepted and marked, because only
 *          the caller can name the field in an error.
 * Writing: into a buf with a maximum. The writer keeps the first error, and json_end returns it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

#define JSON_DEPTH_MAX 64

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT, /* no fraction, no exponent, fits int64 */
    JSON_DOUBLE,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json {
    enum json_type type;
    bool has_nul;      /* STRING: contains \u0000 */
    struct str key;    /* name of the member; only set in nodes of an object */
    struct json *next; /* sibling */
    union {
        bool boolean;
        int64_t integer;
        double number;
        struct str text;
        struct {
            struct json *first;
            size_t count;
        } items;
    };
};

struct json_bounds {
    size_t depth; /* at most JSON_DEPTH_MAX; a scalar has depth 0 */
    size_t nodes;
    size_t members; /* maximum per object; the duplicate check takes quadratic time */
};

/* Fails with -EBADMSG when the text is not JSON, -E2BIG over a bound, -ENOMEM when the arena is
 * full. */
MUST_USE int json_parse(struct arena *a, const char *text, size_t n,
                        const struct json_bounds *bounds, struct json **ret_root);

/* Returns the member of an object, or NULL if it is absent or `object` is not an object. `object`
 * may be NULL. */
const struct json *json_get(const struct json *object, const char *key);
/* Returns a member that is a positive whole number, or 0. Use it for sizes and offsets from a
 * hostile peer. */
uint64_t json_count(const struct json *object, const char *key);
#define JSON_FOR_EACH(it, container) \
    for (const struct json *it = (container)->items.first; it; it = it->next)

struct json_out {
    struct buf *to;
    uint64_t has_item; /* one bit per depth: the next item needs a comma */
    unsigned depth;
    bool after_key;
    int error;
};

void json_begin(struct json_out *o, struct buf *to);
/* Returns 0 or the first error: -ENOBUFS, -ENOMEM, or -EILSEQ for text that is not UTF-8. */
MUST_USE int json_end(const struct json_out *o);

void json_open(struct json_out *o, char bracket); /* '{' or '[' */
void json_close(struct json_out *o, char bracket);
void json_key(struct json_out *o, const char *key);
void json_key_str(struct json_out *o, struct str key); /* must be UTF-8 */
void json_str(struct json_out *o, struct str value);
void json_u64(struct json_out *o, uint64_t value);
void json_i64(struct json_out *o, int64_t value);
void json_bool(struct json_out *o, bool value);
void json_null(struct json_out *o);
/* Writes a string of standard base64 with padding. */
void json_base64(struct json_out *o, const void *bytes, size_t n);
/* Writes a value that is already JSON. */
void json_raw(struct json_out *o, struct str value);

/* Write a key and its value. */
void json_put_str(struct json_out *o, const char *key, struct str value);
void json_put_u64(struct json_out *o, const char *key, uint64_t value);
void json_put_i64(struct json_out *o, const char *key, int64_t value);
void json_put_bool(struct json_out *o, const char *key, bool value);
