#include "wire/pb.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define MAX_FIELD_NUMBER ((1u << 29) - 1)
/* Number of fields per message type that the duplicate check covers. A unit test checks that every
 * type of the API has fewer. */
#define SEEN_FIELDS 128

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

/* One of the nested messages that contain the current field. `up` is the message around this one,
 * so that an error can name the whole path of an invalid field. */
struct level {
    const struct level *up;
    const ProtobufCMessageDescriptor *type;
    const ProtobufCFieldDescriptor *field; /* the current field */
    struct cursor whole;                   /* the message's bytes */
    const uint8_t *field_at;               /* start of the field's tag */
    unsigned depth;
    uint64_t seen[SEEN_FIELDS / 64];
};

static bool pb_read_varint(struct cursor *c, uint64_t *ret_value) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && c->at < c->end; shift += 7) {
        uint8_t byte = *c->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Reads a tag or a length. Refuses more than five bytes, because protobuf-c reads no more. */
static bool pb_read_varint32(struct cursor *c, uint64_t *ret_value) {
    const uint8_t *from = c->at;
    return pb_read_varint(c, ret_value) && c->at - from <= 5;
}

static bool pb_skip(struct cursor *c, size_t n) {
    if ((size_t)(c->end - c->at) < n)
        return false;
    c->at += n;
    return true;
}

/* Counts how often the current field occurred earlier in its message; an error text needs this
 * index. The bytes before the field are already checked. */
static size_t pb_times_before(const struct level *l) {
    struct cursor c = {l->whole.at, l->field_at};
    size_t times = 0;
    uint64_t tag, n;
    while (c.at < c.end && pb_read_varint(&c, &tag)) {
        times += tag >> 3 == l->field->id;
        if ((tag & 7) == WIRE_VARINT)
            pb_read_varint(&c, &n);
        else if ((tag & 7) == WIRE_BYTES && pb_read_varint(&c, &n))
            pb_skip(&c, n);
        else
            pb_skip(&c, (tag & 7) == WIRE_64 ? 8 : 4);
    }
    return times;
}

/* Writes a path such as "spec.labels[3].value" that ends at `at`, outermost name first. */
static char *pb_put_path(const struct level *l, char *first, char *at) {
    for (; l; l = l->up) {
        char part[80];
        if (!l->field)
            continue;
        const char *dot = *at != '\0' ? "." : "";
        int n =
            l->field->label == PROTOBUF_C_LABEL_REPEATED
                ? snprintf(part, sizeof part, "%s[%zu]%s", l->field->name, pb_times_before(l), dot)
                : snprintf(part, sizeof part, "%s%s", l->field->name, dot);
        if (n < 0 || (size_t)n >= sizeof part || n > at - first)
            break;
        at -= n;
        memcpy(at, part, (size_t)n);
    }
    return at;
}

static int pb_fail(const struct level *l, struct err *e, const char *what) {
    char path[sizeof e->field];
    char *end = path + sizeof path - 1;
    *end = '\0';
    const char *name = pb_put_path(l, path, end);
    return err_field(e, name, "%s: %s", *name ? name : "message", what);
}

static enum wire_type pb_wire_type_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return WIRE_VARINT;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return WIRE_32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        break;
    }
    return WIRE_BYTES;
}

/* Returns whether the field may have this wire type. A repeated number may be packed or not,
 * whatever the schema says. */
static bool pb_wire_type_fits(const ProtobufCFieldDescriptor *field, enum wire_type wire) {
    enum wire_type own = pb_wire_type_of(field->type);
    return wire == own ||
           (wire == WIRE_BYTES && own != WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
}

static bool pb_seen_before(struct level *l) {
    size_t index = (size_t)(l->field - l->type->fields);
    if (index >= SEEN_FIELDS)
        return false;
    uint64_t bit = (uint64_t)1 << (index % 64);
    bool before = (l->seen[index / 64] & bit) != 0;
    l->seen[index / 64] |= bit;
    return before;
}

/* Checks packed numbers. */
static int pb_check_packed(const struct level *l, struct cursor c, struct err *e) {
    size_t n = (size_t)(c.end - c.at);
    enum wire_type own = pb_wire_type_of(l->field->type);
    uint64_t value;
    if ((own == WIRE_32 && n % 4 != 0) || (own == WIRE_64 && n % 8 != 0))
        return pb_fail(l, e, "must be a complete number");
    while (own == WIRE_VARINT && c.at < c.end)
        if (!pb_read_varint(&c, &value))
            return pb_fail(l, e, "must be a valid varint");
    return 0;
}

static int pb_check_message(struct level *l, struct err *e);

static int pb_check_bytes(struct level *l, struct cursor c, struct err *e) {
    size_t n = (size_t)(c.end - c.at);
    if (pb_wire_type_of(l->field->type) != WIRE_BYTES)
        return pb_check_packed(l, c, e);
    if (l->field->type == PROTOBUF_C_TYPE_STRING) {
        if (memchr(c.at, '\0', n))
            return pb_fail(l, e, "must not contain NUL");
        if (!str_is_utf8(c.at, n))
            return pb_fail(l, e, "must be UTF-8");
    }
    if (l->field->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    if (l->field->label != PROTOBUF_C_LABEL_REPEATED && pb_seen_before(l))
        return pb_fail(l, e, "must not occur twice");
    if (l->depth + 1 > PB_MAX_DEPTH)
        return pb_fail(l, e, "is nested too deeply");
    struct level below = {.up = l, .type = l->field->descriptor, .whole = c, .depth = l->depth + 1};
    return pb_check_message(&below, e);
}

static int pb_check_field(struct level *l, struct cursor *c, enum wire_type wire, struct err *e) {
    uint64_t n;
    switch (wire) {
    case WIRE_VARINT:
        return pb_read_varint(c, &n) ? 0 : pb_fail(l, e, "must be a valid varint");
    case WIRE_64:
        return pb_skip(c, 8) ? 0 : pb_fail(l, e, "must be a complete number");
    case WIRE_32:
        return pb_skip(c, 4) ? 0 : pb_fail(l, e, "must be a complete number");
    case WIRE_BYTES:
        if (!pb_read_varint32(c, &n) || n > (size_t)(c->end - c->at))
            return pb_fail(l, e, "has a length past the end of the message");
        struct cursor inner = {c->at, c->at + n};
        c->at += n;
        return l->field ? pb_check_bytes(l, inner, e) : 0;
    default:
        return pb_fail(l, e, "has a field with an unknown wire type");
    }
}

static int pb_check_message(struct level *l, struct err *e) {
    struct cursor c = l->whole;
    while (c.at < c.end) {
        uint64_t tag;
        l->field = NULL;
        l->field_at = c.at;
        if (!pb_read_varint32(&c, &tag) || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
            return pb_fail(l, e, "has an invalid field number");
        enum wire_type wire = (enum wire_type)(tag & 7);
        l->field = protobuf_c_message_descriptor_get_field(l->type, (unsigned)(tag >> 3));
        if (l->field && !pb_wire_type_fits(l->field, wire))
            return pb_fail(l, e, "has the wrong wire type");
        int r = pb_check_field(l, &c, wire, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static void *on_alloc(void *arena, size_t n) {
    return arena_alloc(arena, n);
}

static void on_free(void *arena, void *p) {
    (void)arena;
    (void)p;
}

static int pb_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                    struct err *e) {
    struct level top = {.type = type, .whole = {bytes, bytes + n}, .depth = 1};
    return pb_check_message(&top, e);
}

/* Decodes bytes that pb_check has accepted, so it fails only when the arena is full. */
static int pb_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                     struct arena *arena, ProtobufCMessage **ret_message, struct err *e) {
    ProtobufCAllocator allocator = {on_alloc, on_free, arena};
    ProtobufCMessage *m = protobuf_c_message_unpack(type, &allocator, n, bytes);
    if (!m)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_MESSAGE_DECODED, (int64_t)arena->max_bytes,
                         "decode the message: it needs more than %zu bytes", arena->max_bytes);
    *ret_message = m;
    return 0;
}

int pb_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
              struct arena *arena, ProtobufCMessage **ret_message, struct err *e) {
    int r = pb_check(type, bytes, n, e);
    return r < 0 ? r : pb_unpack(type, bytes, n, arena, ret_message, e);
}

/* Decodes a message without copying its bytes. Returns NULL unless the message consists of exactly
 * one field: a bytes member of a oneof. */
static ProtobufCMessage *pb_borrow(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                   size_t n, struct arena *arena) {
    struct cursor c = {bytes, bytes + n};
    uint64_t tag, length;
    if (!pb_read_varint32(&c, &tag) || (tag & 7) != WIRE_BYTES || !pb_read_varint32(&c, &length) ||
        length != (size_t)(c.end - c.at))
        return NULL;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
    if (!f || f->type != PROTOBUF_C_TYPE_BYTES || !(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return NULL;
    char *m = arena_alloc(arena, type->sizeof_message);
    if (!m)
        return NULL;
    protobuf_c_message_init(type, m);
    ProtobufCBinaryData *data = (void *)(m + f->offset);
    uint32_t *which = (void *)(m + f->quantifier_offset);
    *data = (ProtobufCBinaryData){length, (uint8_t *)c.at};
    *which = f->id;
    return (void *)m;
}

int pb_decode_in_place(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                       struct arena *arena, ProtobufCMessage **ret_message, struct err *e) {
    int r = pb_check(type, bytes, n, e);
    ProtobufCMessage *m = r < 0 ? NULL : pb_borrow(type, bytes, n, arena);
    if (r < 0 || !m)
        return r < 0 ? r : pb_unpack(type, bytes, n, arena, ret_message, e);
    *ret_message = m;
    return 0;
}

bool pb_next_field(const uint8_t **at, const uint8_t *end, struct pb_field *ret_field) {
    struct cursor c = {*at, end};
    struct pb_field f = {0};
    uint64_t tag, n;
    if (!pb_read_varint32(&c, &tag) || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
        return false;
    f.id = (uint32_t)(tag >> 3);
    f.is_bytes = (tag & 7) == WIRE_BYTES;
    if (f.is_bytes) {
        if (!pb_read_varint32(&c, &n) || n > (size_t)(c.end - c.at))
            return false;
        f.bytes = c.at;
        f.n = (size_t)n;
        c.at += n;
    } else if ((tag & 7) != WIRE_VARINT || !pb_read_varint(&c, &f.number)) {
        return false;
    }
    *at = c.at;
    *ret_field = f;
    return true;
}
