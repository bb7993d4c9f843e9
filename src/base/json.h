/* json — a small, strict JSON reader and writer (RFC 8259) for messages from hostile peers.
 *
 * Reading: the whole text is checked and indexed at once into nodes of an arena; nothing is read after
 *          json_parse has answered. Plain strings are slices of the text, so it must outlive the nodes.
 * Bounds:  depth, nodes and members per object are given; memory is the arena's; no recursion.
 * Refused: a member named twice, invalid UTF-8, lone surrogates, numbers beyond double, anything after
 *          the value. A NUL inside a string is kept and marked, because only the caller can name it.
 * Writing: into a buf with a maximum; the first failure sticks and json_end answers it. */
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
    bool has_nul;      /* STRING: a \u0000 is in it */
    struct str key;    /* when it is a member of an object */
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
    size_t depth; /* at most JSON_DEPTH_MAX; a lone scalar has depth 0 */
    size_t nodes;
    size_t members; /* of one object: looking for doubles is quadratic in it */
};

/* -EBADMSG: not JSON. -E2BIG: over a bound. -ENOMEM: the arena is full. */
MUST_USE int json_parse(struct arena *a, const char *text, size_t n,
                        const struct json_bounds *bounds, struct json **ret_root);

/* The member of an object, or NULL; also NULL when `object` is NULL or something else. */
const struct json *json_get(const struct json *object, const char *key);
/* A member that is a whole number above 0, else 0: sizes and offsets that a hostile peer names. */
uint64_t json_count(const struct json *object, const char *key);
#define JSON_FOR_EACH(it, container) \
    for (const struct json *it = (container)->items.first; it; it = it->next)

struct json_out {
    struct buf *to;
    uint64_t has_item; /* bit per depth: a comma comes before the next item */
    unsigned depth;
    bool after_key;
    int error;
};

void json_begin(struct json_out *o, struct buf *to);
/* 0, or the first failure: -ENOBUFS, -ENOMEM, or -EILSEQ for text that is not UTF-8. */
MUST_USE int json_end(const struct json_out *o);

void json_open(struct json_out *o, char bracket); /* '{' or '[' */
void json_close(struct json_out *o, char bracket);
void json_key(struct json_out *o, const char *key);
void json_key_str(struct json_out *o, struct str key); /* UTF-8 already */
void json_str(struct json_out *o, struct str value);
void json_u64(struct json_out *o, uint64_t value);
void json_i64(struct json_out *o, int64_t value);
void json_bool(struct json_out *o, bool value);
void json_null(struct json_out *o);
/* Standard base64 with padding, as a string. */
void json_base64(struct json_out *o, const void *bytes, size_t n);
/* A value that is JSON already. */
void json_raw(struct json_out *o, struct str value);

/* A key and its value. */
void json_put_str(struct json_out *o, const char *key, struct str value);
void json_put_u64(struct json_out *o, const char *key, uint64_t value);
void json_put_i64(struct json_out *o, const char *key, int64_t value);
void json_put_bool(struct json_out *o, const char *key, bool value);
