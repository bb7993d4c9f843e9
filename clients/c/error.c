#include "clients/c/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

/* --- names --- */

static const struct {
    const char *name;
    enum berm_code code;
    enum berm_retry retry;
    enum grpc_code grpc;
} rows[] = {
#define ERR(row, number, status, http, when, meaning) \
    {#row, BERM_##row, BERM_RETRY_##when, GRPC_##status},
#include "base/errors.def"
#undef ERR
    {"UNKNOWN", BERM_UNKNOWN, BERM_RETRY_CHECK, GRPC_UNKNOWN},
    {"UNREACHABLE", BERM_UNREACHABLE, BERM_RETRY_LATER, GRPC_UNAVAILABLE},
    {"DISCONNECTED", BERM_DISCONNECTED, BERM_RETRY_CHECK, GRPC_UNAVAILABLE},
};

static size_t row_of_code(enum berm_code code) {
    size_t i = 0;
    while (i < COUNT_OF(rows) - 1 && rows[i].code != code)
        i++;
    return i;
}

const char *berm_code_name(enum berm_code code) {
    size_t i = row_of_code(code);
    return rows[i].code == code ? rows[i].name : "UNKNOWN";
}

const char *berm_error_get(const struct berm_error *e, const char *key) {
    for (size_t i = 0; i < e->n_metadata; i++)
        if (strcmp(e->metadata[i].key, key) == 0)
            return e->metadata[i].value;
    return NULL;
}

static void set_row(struct berm_error *e, size_t i) {
    e->code = rows[i].code;
    e->name = rows[i].name;
    e->retry = rows[i].retry;
}

/* Sets the code for a reason. An unknown reason sets BERM_UNKNOWN and is kept in the metadata. */
static void set_reason(struct berm_error *e, struct str reason) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (str_is(reason, str_of(rows[i].name))) {
            set_row(e, i);
            return;
        }
    set_row(e, row_of_code(BERM_UNKNOWN));
}

int error_set(struct berm_error *e, enum berm_code code, const char *fmt, ...) {
    va_list args;
    if (!e)
        return -(int)code;
    *e = (struct berm_error){0};
    set_row(e, row_of_code(code));
    va_start(args, fmt);
    vsnprintf(e->message, sizeof e->message, fmt, args);
    va_end(args);
    return -(int)code;
}

/* --- google.rpc.Status: three small messages, parsed field by field --- */

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

static bool read_varint(struct cursor *c, uint64_t *ret_value) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Reads the next Protobuf field: its number, and its bytes if it has any. Returns false at the end
 * or on an error. */
static bool next_field(struct cursor *c, unsigned *ret_number, struct str *ret_bytes) {
    uint64_t tag, n = 0;
    if (!read_varint(c, &tag) || tag >> 3 > 1000)
        return false;
    *ret_number = (unsigned)(tag >> 3);
    *ret_bytes = (struct str){0};
    switch (tag & 7) {
    case 0:
        return read_varint(c, &n);
    case 1:
        n = 8;
        break;
    case 2:
        if (!read_varint(c, &n))
            return false;
        break;
    case 5:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > (uint64_t)(c->end - c->at))
        return false;
    *ret_bytes = (struct str){(const char *)c->at, (size_t)n};
    c->at += n;
    return true;
}

static struct cursor cursor_of(struct str bytes) {
    return (struct cursor){(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n};
}

static void add_metadata(struct berm_error *e, struct str key, struct str value) {
    static const char *const retries[] = {"never", "later", "check"};
    if (str_is(key, STR("retry")))
        for (size_t i = 0; i < COUNT_OF(retries); i++)
            if (str_is(value, str_of(retries[i])))
                e->retry = (enum berm_retry)i;
    if (e->n_metadata == BERM_ERROR_METADATA)
        return;
    size_t i = e->n_metadata++;
    snprintf(e->metadata[i].key, sizeof e->metadata[i].key, "%.*s", (int)key.n, key.p);
    snprintf(e->metadata[i].value, sizeof e->metadata[i].value, "%.*s", (int)value.n, value.p);
}

static void read_pair(struct berm_error *e, struct str bytes) {
    struct cursor c = cursor_of(bytes);
    struct str key = STR(""), value = STR(""), field;
    for (unsigned number; next_field(&c, &number, &field);)
        *(number == 1 ? &key : &value) = field;
    if (key.n > 0)
        add_metadata(e, key, value);
}

/* Reads the reason before the metadata, because it sets the default of `retry`, which the metadata
 * may override. */
static void read_error_info(struct berm_error *e, struct str bytes) {
    struct str field;
    unsigned number;
    for (struct cursor c = cursor_of(bytes); next_field(&c, &number, &field);)
        if (number == 1) {
            set_reason(e, field);
            if (e->code == BERM_UNKNOWN)
                add_metadata(e, STR("reason"), field);
        }
    for (struct cursor c = cursor_of(bytes); next_field(&c, &number, &field);)
        if (number == 3)
            read_pair(e, field);
}

static void read_bad_request(struct berm_error *e, struct str bytes) {
    struct cursor c = cursor_of(bytes);
    struct str violation, field;
    unsigned number;
    if (!next_field(&c, &number, &violation) || number != 1)
        return;
    for (c = cursor_of(violation); next_field(&c, &number, &field);)
        if (number == 1)
            snprintf(e->field, sizeof e->field, "%.*s", (int)field.n, field.p);
}

static void read_detail(struct berm_error *e, struct str bytes) {
    struct cursor c = cursor_of(bytes);
    struct str type = STR(""), value = STR(""), field;
    for (unsigned number; next_field(&c, &number, &field);)
        *(number == 1 ? &type : &value) = field;
    if (str_ends(type, STR("/google.rpc.ErrorInfo")))
        read_error_info(e, value);
    else if (str_ends(type, STR("/google.rpc.BadRequest")))
        read_bad_request(e, value);
}

int error_of_status(struct berm_error *e, int grpc_status, const char *message,
                    const uint8_t *details, size_t n) {
    struct berm_error unwanted;
    if (!e)
        e = &unwanted;
    *e = (struct berm_error){.grpc_status = grpc_status};
    /* There are no details, for example because a proxy replied: use the name of the gRPC
     * status. */
    set_reason(e, str_of(grpc_code_name((enum grpc_code)grpc_status)));
    snprintf(e->message, sizeof e->message, "%s", message);
    struct cursor c = {details, details + n};
    struct str field;
    for (unsigned number; next_field(&c, &number, &field);)
        if (number == 3)
            read_detail(e, field);
    if (e->message[0] == '\0')
        snprintf(e->message, sizeof e->message, "the daemon answered %s", e->name);
    return -(int)e->code;
}

int error_of_call(struct berm_error *e, const struct call *k) {
    if (k->grpc_status == 0)
        return 0;
    if (k->grpc_status < 0 && k->http_status != 0 && k->http_status != 200)
        return error_set(e, BERM_UNKNOWN, "HTTP status %d: this is no Berm daemon", k->http_status);
    if (k->grpc_status < 0 && k->refused)
        return error_set(e, BERM_SHUTTING_DOWN, "the daemon did not take the call");
    if (k->grpc_status < 0)
        return error_set(e, BERM_DISCONNECTED, "the daemon broke the call off");
    size_t n = buf_len(&k->details);
    AUTO_FREE uint8_t *bytes = malloc(n * 3 / 4 + 3);
    ssize_t decoded = bytes ? base64_decode((const char *)buf_data(&k->details), n, bytes) : -1;
    return error_of_status(e, k->grpc_status, k->message, bytes, decoded < 0 ? 0 : (size_t)decoded);
}
