/* Converts any message to proto3 JSON with the help of its descriptor. */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include <berm.h>

#include "base/json.h"

#define JSON_MAX_BYTES ((size_t)1 << 30)
#define NAME_BYTES 128 /* buffer for a field name; the longest name of the API has 24 bytes */

/* Converts snake_case to lowerCamelCase, like protoc. */
static void camel_case(const char *name, char out[NAME_BYTES]) {
    size_t n = 0;
    bool raise = false;
    for (; *name != '\0' && n < NAME_BYTES - 1; name++) {
        if (*name == '_') {
            raise = true;
            continue;
        }
        out[n++] = raise && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        raise = false;
    }
    out[n] = '\0';
}

static void put_quoted(struct json_out *o, const char *fmt, long long value) {
    char text[32];
    snprintf(text, sizeof text, fmt, value);
    json_str(o, str_of(text));
}

static void put_double(struct json_out *o, double value, int digits) {
    char text[64];
    if (isnan(value))
        json_str(o, STR("NaN"));
    else if (isinf(value))
        json_str(o, str_of(value > 0 ? "Infinity" : "-Infinity"));
    else
        json_raw(o, (struct str){text, (size_t)snprintf(text, sizeof text, "%.*g", digits, value)});
}

/* Writes the name of an enum value, or its number if this client does not know it (SKEW-5). */
static void put_enum(struct json_out *o, const ProtobufCEnumDescriptor *type, int value) {
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);
    if (known)
        json_str(o, str_of(known->name));
    else
        json_i64(o, value);
}

static void put_message(struct json_out *o, const ProtobufCMessage *m);

static void put_value(struct json_out *o, const ProtobufCFieldDescriptor *f, const void *at) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return json_i64(o, *(const int32_t *)at);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return json_u64(o, *(const uint32_t *)at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return put_quoted(o, "%lld", *(const int64_t *)at);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return put_quoted(o, "%llu", (long long)*(const uint64_t *)at);
    case PROTOBUF_C_TYPE_FLOAT:
        return put_double(o, (double)*(const float *)at, 9);
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_double(o, *(const double *)at, 17);
    case PROTOBUF_C_TYPE_BOOL:
        return json_bool(o, *(const protobuf_c_boolean *)at);
    case PROTOBUF_C_TYPE_ENUM:
        return put_enum(o, f->descriptor, *(const int *)at);
    case PROTOBUF_C_TYPE_STRING:
        return json_str(o, str_of(*(char *const *)at));
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = at;
        return json_base64(o, bytes->data, bytes->len);
    }
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(o, *(ProtobufCMessage *const *)at);
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *f) {
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM:
        return 4;
    }
    return 0;
}

/* Returns whether a singular field is written: a message that is set, a value that is not zero, the
 * selected member of a oneof. */
static bool is_present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    const char *base = (const char *)m;
    const void *at = base + f->offset;
    static const char zero[sizeof(ProtobufCBinaryData)];
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(base + f->quantifier_offset) == f->id;
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return *(char *const *)at && (*(char *const *)at)[0] != '\0';
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len > 0;
    return memcmp(at, zero, size_of(f)) != 0;
}

static void put_field(struct json_out *o, const ProtobufCMessage *m,
                      const ProtobufCFieldDescriptor *f) {
    char name[NAME_BYTES];
    const char *base = (const char *)m;
    camel_case(f->name, name);
    if (f->label != PROTOBUF_C_LABEL_REPEATED) {
        if (is_present(m, f)) {
            json_key(o, name);
            put_value(o, f, base + f->offset);
        }
        return;
    }
    size_t n = *(const size_t *)(base + f->quantifier_offset);
    const char *items = *(char *const *)(base + f->offset);
    if (n == 0)
        return;
    json_key(o, name);
    json_open(o, '[');
    for (size_t i = 0; i < n; i++)
        put_value(o, f, items + i * size_of(f));
    json_close(o, ']');
}

static void put_message(struct json_out *o, const ProtobufCMessage *m) {
    json_open(o, '{');
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        put_field(o, m, &m->descriptor->fields[i]);
    json_close(o, '}');
}

char *berm_json(const void *message) {
    struct buf text;
    struct json_out o;
    buf_init(&text, JSON_MAX_BYTES);
    json_begin(&o, &text);
    put_message(&o, message);
    int r = json_end(&o);
    if (r == 0)
        r = buf_append(&text, "", 1);
    char *copy = r == 0 ? strdup((const char *)buf_data(&text)) : NULL;
    buf_done(&text);
    return copy;
}
