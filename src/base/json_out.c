/* The writer of json.h. */
#include "base/json.h"

#include <assert.h>
#include <errno.h>

void json_begin(struct json_out *o, struct buf *to) {
    *o = (struct json_out){.to = to};
}

int json_end(const struct json_out *o) {
    assert(o->error < 0 || (o->depth == 0 && !o->after_key));
    return o->error;
}

static void json_put(struct json_out *o, const void *bytes, size_t n) {
    if (o->error == 0)
        o->error = buf_append(o->to, bytes, n);
}

/* Writes a comma unless the item is the first or follows a key. */
static void json_item(struct json_out *o) {
    if (o->after_key) {
        o->after_key = false;
        return;
    }
    uint64_t bit = UINT64_C(1) << o->depth;
    if (o->has_item & bit)
        json_put(o, ",", 1);
    o->has_item |= bit;
}

void json_open(struct json_out *o, char bracket) {
    json_item(o);
    json_put(o, &bracket, 1);
    assert(o->depth + 1 < JSON_DEPTH_MAX);
    o->depth++;
    o->has_item &= ~(UINT64_C(1) << o->depth);
}

void json_close(struct json_out *o, char bracket) {
    assert(o->depth > 0);
    o->depth--;
    json_put(o, &bracket, 1);
}

/* Escapes quote, backslash and control characters, as JSON requires. Also escapes DEL and the C1
 * control characters, which JSON allows unescaped, because people print JSON to terminals. */
static void json_put_text(struct json_out *o, struct str s) {
    json_put(o, "\"", 1);
    size_t plain = 0;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        bool is_c1 = c == 0xc2 && i + 1 < s.n && (unsigned char)s.p[i + 1] < 0xa0;
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !is_c1)
            continue;
        json_put(o, s.p + plain, i - plain);
        if (is_c1)
            c = (unsigned char)s.p[++i]; /* the second byte of a C1 character is its code point */
        plain = i + 1;
        if (c == '"' || c == '\\') {
            json_put(o, (char[]){'\\', (char)c}, 2);
        } else if (c == '\n') {
            json_put(o, "\\n", 2);
        } else {
            char escape[6] = "\\u00";
            hex_encode(&c, 1, escape + 4);
            json_put(o, escape, sizeof escape);
        }
    }
    json_put(o, s.p + plain, s.n - plain);
    json_put(o, "\"", 1);
}

void json_key_str(struct json_out *o, struct str key) {
    json_item(o);
    json_put_text(o, key);
    json_put(o, ":", 1);
    o->after_key = true;
}

void json_key(struct json_out *o, const char *key) {
    json_key_str(o, str_of(key));
}

void json_str(struct json_out *o, struct str value) {
    if (o->error == 0 && !str_is_utf8(value.p, value.n))
        o->error = -EILSEQ;
    json_item(o);
    json_put_text(o, value);
}

void json_u64(struct json_out *o, uint64_t value) {
    char digits[20];
    json_item(o);
    json_put(o, digits, (size_t)(str_put_u64(digits, value) - digits));
}

void json_i64(struct json_out *o, int64_t value) {
    char digits[21] = "-";
    json_item(o);
    char *end = value < 0 ? str_put_u64(digits + 1, 0 - (uint64_t)value)
                          : str_put_u64(digits, (uint64_t)value);
    json_put(o, digits, (size_t)(end - digits));
}

void json_bool(struct json_out *o, bool value) {
    json_item(o);
    json_put(o, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json_out *o) {
    json_item(o);
    json_put(o, "null", 4);
}

void json_raw(struct json_out *o, struct str value) {
    json_item(o);
    json_put(o, value.p, value.n);
}

void json_base64(struct json_out *o, const void *bytes, size_t n) {
    json_item(o);
    json_put(o, "\"", 1);
    uint8_t *at = NULL;
    if (o->error == 0 && n > 0)
        o->error = buf_reserve(o->to, (n + 2) / 3 * 4, &at);
    if (o->error == 0 && n > 0) {
        size_t len = base64_encode(bytes, n, (char *)at);
        while (len % 4 != 0)
            at[len++] = '=';
        buf_commit(o->to, len);
    }
    json_put(o, "\"", 1);
}

void json_put_str(struct json_out *o, const char *key, struct str value) {
    json_key(o, key);
    json_str(o, value);
}

void json_put_u64(struct json_out *o, const char *key, uint64_t value) {
    json_key(o, key);
    json_u64(o, value);
}

void json_put_i64(struct json_out *o, const char *key, int64_t value) {
    json_key(o, key);
    json_i64(o, value);
}

void json_put_bool(struct json_out *o, const char *key, bool value) {
    json_key(o, key);
    json_bool(o, value);
}
