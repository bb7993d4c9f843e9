#include "wire/grpc.h"

#include <errno.h>
#include <stdio.h>

/* Maximum of the details trailer. Peers limit header blocks to about this size. */
#define STATUS_MAX_BYTES ((size_t)8 * 1024)

void grpc_reader_init(struct grpc_reader *r, size_t max_message_bytes) {
    r->max_message_bytes = max_message_bytes;
    buf_init(&r->partial, max_message_bytes + GRPC_PREFIX_BYTES);
}

void grpc_reader_done(struct grpc_reader *r) {
    buf_done(&r->partial);
}

size_t grpc_reader_pending(const struct grpc_reader *r) {
    return buf_len(&r->partial);
}

/* Returns GRPC_READ_MESSAGE and the length, or the reason to refuse the prefix. */
static enum grpc_read grpc_parse_prefix(const struct grpc_reader *r, const uint8_t *p,
                                        struct grpc_frame *ret_frame) {
    if (p[0] > 1)
        return GRPC_READ_BAD;
    ret_frame->compressed = p[0] == 1;
    ret_frame->n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    return ret_frame->n > r->max_message_bytes ? GRPC_READ_TOO_LARGE : GRPC_READ_MESSAGE;
}

/* Appends to `partial` until it has `want` bytes or the input ends. */
static int grpc_gather(struct grpc_reader *r, const uint8_t **at, const uint8_t *end, size_t want) {
    size_t have = buf_len(&r->partial);
    size_t n = have < want ? MIN(want - have, (size_t)(end - *at)) : 0;
    int e = buf_append(&r->partial, *at, n);
    if (e == 0)
        *at += n;
    return e;
}

static enum grpc_read grpc_next_split(struct grpc_reader *r, const uint8_t **at, const uint8_t *end,
                                      struct grpc_frame *ret_frame) {
    if (grpc_gather(r, at, end, GRPC_PREFIX_BYTES) < 0)
        return GRPC_READ_NO_MEMORY;
    if (buf_len(&r->partial) < GRPC_PREFIX_BYTES)
        return GRPC_READ_MORE;
    enum grpc_read what = grpc_parse_prefix(r, buf_data(&r->partial), ret_frame);
    if (what != GRPC_READ_MESSAGE)
        return what;
    size_t whole = GRPC_PREFIX_BYTES + ret_frame->n;
    if (grpc_gather(r, at, end, whole) < 0)
        return GRPC_READ_NO_MEMORY;
    if (buf_len(&r->partial) < whole)
        return GRPC_READ_MORE;
    ret_frame->bytes = buf_data(&r->partial) + GRPC_PREFIX_BYTES;
    buf_clear(&r->partial); /* the bytes remain valid until the next append */
    return GRPC_READ_MESSAGE;
}

enum grpc_read grpc_reader_next(struct grpc_reader *r, const uint8_t **at, const uint8_t *end,
                                struct grpc_frame *ret_frame) {
    size_t n = (size_t)(end - *at);
    if (n == 0)
        return GRPC_READ_MORE;
    if (buf_len(&r->partial) > 0 || n < GRPC_PREFIX_BYTES)
        return grpc_next_split(r, at, end, ret_frame);
    enum grpc_read what = grpc_parse_prefix(r, *at, ret_frame);
    if (what != GRPC_READ_MESSAGE)
        return what;
    if (n - GRPC_PREFIX_BYTES < ret_frame->n)
        return grpc_next_split(r, at, end, ret_frame);
    ret_frame->bytes = *at + GRPC_PREFIX_BYTES;
    *at += GRPC_PREFIX_BYTES + ret_frame->n;
    return GRPC_READ_MESSAGE;
}

void grpc_put_prefix(uint8_t out[GRPC_PREFIX_BYTES], bool compressed, size_t n) {
    out[0] = compressed;
    out[1] = (uint8_t)(n >> 24);
    out[2] = (uint8_t)(n >> 16);
    out[3] = (uint8_t)(n >> 8);
    out[4] = (uint8_t)n;
}

int grpc_parse_timeout(struct str text, uint64_t *ret_us) {
    uint64_t value;
    if (text.n < 2 || text.n > 9 ||
        str_to_u64((struct str){text.p, text.n - 1}, 0, UINT64_MAX, &value) < 0)
        return -EINVAL;
    switch (text.p[text.n - 1]) {
    case 'H':
        *ret_us = value * 3600 * 1000000;
        return 0;
    case 'M':
        *ret_us = value * 60 * 1000000;
        return 0;
    case 'S':
        *ret_us = value * 1000000;
        return 0;
    case 'm':
        *ret_us = value * 1000;
        return 0;
    case 'u':
        *ret_us = value;
        return 0;
    case 'n':
        /* round up, so that a timeout above zero does not become zero */
        *ret_us = (value + 999) / 1000;
        return 0;
    default:
        return -EINVAL;
    }
}

struct str grpc_encode_message(struct str text, struct arena *arena) {
    static const char hex[] = "0123456789ABCDEF";
    char *out = arena_alloc(arena, text.n * 3 + 1);
    if (!out)
        return (struct str){0};
    char *at = out;
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c >= 0x20 && c <= 0x7e && c != '%') {
            *at++ = (char)c;
            continue;
        }
        *at++ = '%';
        *at++ = hex[c >> 4];
        *at++ = hex[c & 15];
    }
    return (struct str){out, (size_t)(at - out)};
}

/* A protobuf writer for the few messages of google.rpc that we send; their types are not compiled
 * in. */
static int grpc_put_varint(struct buf *out, uint64_t value) {
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    } while (value > 0);
    bytes[n - 1] &= 0x7f;
    return buf_append(out, bytes, n);
}

static int grpc_put_bytes(struct buf *out, unsigned field, const void *bytes, size_t n) {
    int r = grpc_put_varint(out, field << 3 | 2);
    if (r == 0)
        r = grpc_put_varint(out, n);
    return r == 0 ? buf_append(out, bytes, n) : r;
}

static int grpc_put_str(struct buf *out, unsigned field, const char *s) {
    return grpc_put_bytes(out, field, s, strlen(s));
}

/* Copies the built message into the arena as one detail, and frees the buffer. */
static size_t grpc_detail_take(struct buf *built, int failed, struct str type_url,
                               struct arena *arena, struct grpc_detail *ret_detail) {
    char *copy = failed ? NULL : arena_copy(arena, buf_data(built), buf_len(built));
    size_t n = buf_len(built);
    buf_done(built);
    if (!copy)
        return 0;
    *ret_detail = (struct grpc_detail){type_url, (const uint8_t *)copy, n};
    return 1;
}

/* Appends one entry of ErrorInfo.metadata, a map<string, string>. */
static int grpc_put_metadata(struct buf *info, const char *key, const char *value) {
    struct buf entry;
    buf_init(&entry, STATUS_MAX_BYTES);
    int r = grpc_put_str(&entry, 1, key) | grpc_put_str(&entry, 2, value);
    if (r == 0)
        r = grpc_put_bytes(info, 3, buf_data(&entry), buf_len(&entry));
    buf_done(&entry);
    return r;
}

static size_t grpc_error_info(const struct err *e, const struct err_face *face, struct arena *arena,
                              struct grpc_detail *ret_detail) {
    char number[24];
    struct buf info;
    buf_init(&info, STATUS_MAX_BYTES);
    int r = grpc_put_str(&info, 1, face->name) | grpc_put_str(&info, 2, "berm");
    r |= grpc_put_metadata(&info, "retry", err_retry_name(face->retry));
    if (e->limit) {
        snprintf(number, sizeof number, "%lld", (long long)e->limit_value);
        r |= grpc_put_metadata(&info, "limit", e->limit) |
             grpc_put_metadata(&info, "limit_value", number);
    }
    if (e->subject)
        r |= grpc_put_metadata(&info, e->subject, e->subject_id);
    for (size_t i = 0; i < ERR_NUMBERS && e->numbers[i].key; i++) {
        snprintf(number, sizeof number, "%lld", (long long)e->numbers[i].value);
        r |= grpc_put_metadata(&info, e->numbers[i].key, number);
    }
    return grpc_detail_take(&info, r, STR("type.googleapis.com/google.rpc.ErrorInfo"), arena,
                            ret_detail);
}

static size_t grpc_bad_request(const struct err *e, struct arena *arena,
                               struct grpc_detail *ret_detail) {
    struct buf request, violation;
    buf_init(&request, STATUS_MAX_BYTES);
    buf_init(&violation, STATUS_MAX_BYTES);
    int r = grpc_put_str(&violation, 1, e->field) | grpc_put_str(&violation, 2, e->text);
    r |= grpc_put_bytes(&request, 1, buf_data(&violation), buf_len(&violation));
    buf_done(&violation);
    return grpc_detail_take(&request, r, STR("type.googleapis.com/google.rpc.BadRequest"), arena,
                            ret_detail);
}

size_t grpc_error_details(const struct err *e, struct arena *arena,
                          struct grpc_detail ret_details[GRPC_ERROR_DETAILS]) {
    const struct err_face *face = err_face(e->code);
    size_t n = face ? grpc_error_info(e, face, arena, &ret_details[0]) : 0;
    if (e->field[0] != '\0')
        n += grpc_bad_request(e, arena, &ret_details[n]);
    return n;
}

static int grpc_put_detail(struct buf *status, const struct grpc_detail *d) {
    struct buf any;
    buf_init(&any, status->max_bytes);
    int r = grpc_put_bytes(&any, 1, d->type_url.p, d->type_url.n) |
            grpc_put_bytes(&any, 2, d->bytes, d->n);
    if (r == 0)
        r = grpc_put_bytes(status, 3, buf_data(&any), buf_len(&any));
    buf_done(&any);
    return r;
}

struct str grpc_encode_status(enum grpc_code code, struct str message,
                              const struct grpc_detail *details, size_t n_details,
                              struct arena *arena) {
    struct buf status;
    struct str text = {0};
    buf_init(&status, STATUS_MAX_BYTES);
    int r = grpc_put_varint(&status, 1 << 3) | grpc_put_varint(&status, code);
    r |= grpc_put_bytes(&status, 2, message.p, message.n);
    for (size_t i = 0; i < n_details; i++)
        r |= grpc_put_detail(&status, &details[i]);
    char *out = r == 0 ? arena_alloc(arena, BASE64_BYTES(buf_len(&status))) : NULL;
    if (out)
        text = (struct str){out, base64_encode(buf_data(&status), buf_len(&status), out)};
    buf_done(&status);
    return text;
}
