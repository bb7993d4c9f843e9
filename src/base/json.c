#include "base/json.h"

#include <errno.h>
#include <math.h>

struct reader {
    struct arena *arena;
    const char *at;
    const char *end;
    const struct json_bounds *bounds;
    size_t nodes;
    size_t depth;
    struct {
        struct json *node;
        struct json **tail; /* where to link the next item */
    } open[JSON_DEPTH_MAX];
};

static void json_skip_space(struct reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool json_take(struct reader *r, char c) {
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static int json_take_word(struct reader *r, struct str word) {
    if (!str_starts((struct str){r->at, (size_t)(r->end - r->at)}, word))
        return -EBADMSG;
    r->at += word.n;
    return 0;
}

static int json_hex4(const char *p, const char *end, uint32_t *ret_value) {
    if (end - p < 4)
        return -EBADMSG;
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return -EBADMSG;
        value = value << 4 | digit;
    }
    *ret_value = value;
    return 0;
}

static char *json_put_utf8(char *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* `at` points after "\u". A surrogate is only valid in a pair. */
static int json_unescape_unicode(const char **at, const char *end, char **out, bool *has_nul) {
    uint32_t c, low;
    int r = json_hex4(*at, end, &c);
    if (r < 0)
        return r;
    *at += 4;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
            return -EBADMSG;
        r = json_hex4(*at + 2, end, &low);
        if (r < 0 || low < 0xdc00 || low > 0xdfff)
            return -EBADMSG;
        *at += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c <= 0xdfff) {
        return -EBADMSG;
    }
    *has_nul |= c == 0;
    *out = json_put_utf8(*out, c);
    return 0;
}

/* The unescaped text is never longer than its source, so one allocation suffices. */
static int json_unescape(struct arena *a, struct str raw, struct str *ret_text, bool *has_nul) {
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    char *copy = arena_alloc(a, raw.n);
    if (!copy)
        return -ENOMEM;
    char *out = copy;
    const char *end = raw.p + raw.n;
    for (const char *at = raw.p; at < end;) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        char c = at[1]; /* json_read_string ensured that a byte follows every backslash */
        at += 2;
        const char *which = c ? strchr(from, c) : NULL;
        if (which) {
            *out++ = to[which - from];
            continue;
        }
        if (c != 'u')
            return -EBADMSG;
        int r = json_unescape_unicode(&at, end, &out, has_nul);
        if (r < 0)
            return r;
    }
    *ret_text = (struct str){copy, (size_t)(out - copy)};
    return 0;
}

static int json_read_string(struct reader *r, struct str *ret_text, bool *has_nul) {
    if (!json_take(r, '"'))
        return -EBADMSG;
    const char *start = r->at;
    bool escaped = false;
    for (;; r->at++) {
        if (r->at == r->end || (unsigned char)*r->at < 0x20)
            return -EBADMSG;
        if (*r->at == '"')
            break;
        if (*r->at == '\\') {
            escaped = true;
            if (++r->at == r->end)
                return -EBADMSG;
        }
    }
    struct str raw = {start, (size_t)(r->at - start)};
    r->at++;
    if (!str_is_utf8(raw.p, raw.n))
        return -EBADMSG;
    if (escaped)
        return json_unescape(r->arena, raw, ret_text, has_nul);
    *ret_text = raw;
    return 0;
}

static const char *json_skip_digits(const char *p, const char *end) {
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* Returns the end of the number at `p` (RFC 8259 grammar), or NULL. */
static const char *json_number_end(const char *p, const char *end, bool *ret_whole) {
    *ret_whole = true;
    if (p < end && *p == '-')
        p++;
    const char *digits = p;
    p = json_skip_digits(p, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return NULL;
    if (p < end && *p == '.') {
        *ret_whole = false;
        digits = ++p;
        p = json_skip_digits(p, end);
        if (p == digits)
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *ret_whole = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        p = json_skip_digits(p, end);
        if (p == digits)
            return NULL;
    }
    return p;
}

static bool json_to_int64(const char *p, const char *end, int64_t *ret_value) {
    bool negative = *p == '-';
    uint64_t value;
    if (str_to_u64((struct str){p + negative, (size_t)(end - p - negative)}, 0,
                   (uint64_t)INT64_MAX + negative, &value) < 0)
        return false;
    *ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static int json_read_number(struct reader *r, struct json *node) {
    bool whole;
    const char *end = json_number_end(r->at, r->end, &whole);
    if (!end)
        return -EBADMSG;
    if (whole && json_to_int64(r->at, end, &node->integer)) {
        node->type = JSON_INT;
    } else {
        char copy[64]; /* strtod needs a NUL; longer numbers are refused */
        size_t n = (size_t)(end - r->at);
        if (n >= sizeof copy)
            return -E2BIG;
        memcpy(copy, r->at, n);
        copy[n] = '\0';
        node->type = JSON_DOUBLE;
        node->number = strtod(copy, NULL);
        if (!isfinite(node->number))
            return -E2BIG;
    }
    r->at = end;
    return 0;
}

static int json_open_container(struct reader *r, struct json *node, enum json_type type) {
    if (r->depth >= MIN(r->bounds->depth, (size_t)JSON_DEPTH_MAX))
        return -E2BIG;
    node->type = type;
    r->at++;
    r->open[r->depth].node = node;
    r->open[r->depth].tail = &node->items.first;
    r->depth++;
    return 0;
}

static int json_read_value(struct reader *r, struct json *node) {
    if (r->at == r->end)
        return -EBADMSG;
    switch (*r->at) {
    case '{':
        return json_open_container(r, node, JSON_OBJECT);
    case '[':
        return json_open_container(r, node, JSON_ARRAY);
    case '"':
        node->type = JSON_STRING;
        return json_read_string(r, &node->text, &node->has_nul);
    case 't':
    case 'f':
        node->type = JSON_BOOL;
        node->boolean = *r->at == 't';
        return node->boolean ? json_take_word(r, STR("true")) : json_take_word(r, STR("false"));
    case 'n':
        node->type = JSON_NULL;
        return json_take_word(r, STR("null"));
    default:
        return json_read_number(r, node);
    }
}

static int json_read_key(struct reader *r, const struct json *object, struct json *node) {
    bool has_nul = false;
    int e = json_read_string(r, &node->key, &has_nul);
    if (e < 0)
        return e;
    if (object->items.count >= r->bounds->members)
        return -E2BIG;
    JSON_FOR_EACH(it, object)
    if (str_is(it->key, node->key))
        return -EBADMSG;
    json_skip_space(r);
    if (!json_take(r, ':'))
        return -EBADMSG;
    json_skip_space(r);
    return 0;
}

static struct json *json_node_new(struct reader *r, int *e) {
    if (r->nodes >= r->bounds->nodes) {
        *e = -E2BIG;
        return NULL;
    }
    struct json *node = arena_zalloc(r->arena, sizeof *node);
    *e = node ? 0 : -ENOMEM;
    r->nodes++;
    return node;
}

/* Reads one item of the innermost container, or its end. */
static int json_read_item(struct reader *r) {
    struct json *in = r->open[r->depth - 1].node;
    char close = in->type == JSON_OBJECT ? '}' : ']';
    if (json_take(r, close)) {
        r->depth--;
        return 0;
    }
    if (in->items.count > 0) {
        if (!json_take(r, ','))
            return -EBADMSG;
        json_skip_space(r);
    }
    int e;
    struct json *node = json_node_new(r, &e);
    if (!node)
        return e;
    if (in->type == JSON_OBJECT && (e = json_read_key(r, in, node)) < 0)
        return e;
    *r->open[r->depth - 1].tail = node;
    r->open[r->depth - 1].tail = &node->next;
    in->items.count++;
    return json_read_value(r, node);
}

int json_parse(struct arena *a, const char *text, size_t n, const struct json_bounds *bounds,
               struct json **ret_root) {
    struct reader r = {.arena = a, .at = text, .end = text + n, .bounds = bounds};
    int e;
    struct json *root = json_node_new(&r, &e);
    if (!root)
        return e;
    json_skip_space(&r);
    e = json_read_value(&r, root);
    json_skip_space(&r);
    while (e == 0 && r.depth > 0) {
        e = json_read_item(&r);
        json_skip_space(&r);
    }
    if (e < 0)
        return e;
    if (r.at != r.end)
        return -EBADMSG;
    *ret_root = root;
    return 0;
}

const struct json *json_get(const struct json *object, const char *key) {
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    struct str want = str_of(key);
    JSON_FOR_EACH(it, object)
    if (str_is(it->key, want))
        return it;
    return NULL;
}

uint64_t json_count(const struct json *object, const char *key) {
    const struct json *n = json_get(object, key);
    return n && n->type == JSON_INT && n->integer > 0 ? (uint64_t)n->integer : 0;
}
