#include "wire/pb.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define MAX_FIELD_NUMBER ((1u << 29) - 1)
/* Fields per message type that the twice-given check can tell apart; a unit test holds every type
 * of the contract within it. */
#define SEEN_FIELDS 128

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

/* One message on the way down; the chain names the path when something is wrong. */
struct level {
    const struct level *up;
    const ProtobufCMessageDescriptor *type;
    const ProtobufCFieldDescriptor *field; /* being read now */
    struct cursor whole;                   /* the message's bytes */
    const uint8_t *field_at;               /* where the field's tag begins */
    unsigned depth;
    uint64_t seen[SEEN_FIELDS / 64];
};

static bool read_varint(struct cursor *c, uint64_t *ret_value) {
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

/* A tag or a length. protobuf-c reads no more than five bytes of these. */
static bool read_varint32(struct cursor *c, uint64_t *ret_value) {
    const uint8_t *from = c->at;
    return read_varint(c, ret_value) && c->at - from <= 5;
}

static bool skip(struct cursor *c, size_t n) {
    if ((size_t)(c->end - c->at) < n)
        return false;
    c->at += n;
    return true;
}

/* How often the field stood in the message before this time. The bytes up to here are known good, so
 * the count is made again only for an error's text. */
static size_t times_before(const struct level *l) {
    struct cursor c = {l->whole.at, l->field_at};
    size_t times = 0;
    uint64_t tag, n;
    while (c.at < c.end && read_varint(&c, &tag)) {
        times += tag >> 3 == l->field->id;
        if ((tag & 7) == WIRE_VARINT)
            read_varint(&c, &n);
        else if ((tag & 7) == WIRE_BYTES && read_varint(&c, &n))
            skip(&c, n);
        else
            skip(&c, (tag & 7) == WIRE_64 ? 8 : 4);
    }
    return times;
}

/* Writes "spec.labels[3].value" in front of `at`, outermost name first. */
static char *put_path(const struct level *l, char *first, char *at) {
    for (; l; l = l->up) {
        char part[80];
        if (!l->field)
            continue;
        const char *dot = *at != '\0' ? "." : "";
        int n = l->field->label == PROTOBUF_C_LABEL_REPEATED
                    ? snprintf(part, sizeof part, "%s[%zu]%s", l->field->name, times_before(l), dot)
                    : snprintf(part, sizeof part, "%s%s", l->field->name, dot);
        if (n < 0 || (size_t)n >= sizeof part || n > at - first)
            break;
        at -= n;
        memcpy(at, part, (size_t)n);
    }
    return at;
}

static int fail(const struct level *l, struct err *e, const char *what) {
    char path[sizeof e->field];
    char *end = path + sizeof path - 1;
    *end = '\0';
    return err_field(e, put_path(l, path, end), "%s", what);
}

static enum wire_type wire_type_of(ProtobufCType type) {
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

/* A repeated number may come packed or one by one, whatever the schema says. */
static bool wire_type_fits(const ProtobufCFieldDescriptor *field, enum wire_type wire) {
    enum wire_type own = wire_type_of(field->type);
    return wire == own ||
           (wire == WIRE_BYTES && own != WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED);
}

static bool seen_before(struct level *l) {
    size_t index = (size_t)(l->field - l->type->fields);
    if (index >= SEEN_FIELDS)
        return false;
    uint64_t bit = (uint64_t)1 << (index % 64);
    bool before = (l->seen[index / 64] & bit) != 0;
    l->seen[index / 64] |= bit;
    return before;
}

/* Numbers packed into one run of bytes. */
static int check_packed(const struct level *l, struct cursor c, struct err *e) {
    size_t n = (size_t)(c.end - c.at);
    enum wire_type own = wire_type_of(l->field->type);
    uint64_t value;
    if ((own == WIRE_32 && n % 4 != 0) || (own == WIRE_64 && n % 8 != 0))
        return fail(l, e, "a number is cut short");
    while (own == WIRE_VARINT && c.at < c.end)
        if (!read_varint(&c, &value))
            return fail(l, e, "a number is cut short or too long");
    return 0;
}

static int check_message(struct level *l, struct err *e);

static int check_bytes(struct level *l, struct cursor c, struct err *e) {
    size_t n = (size_t)(c.end - c.at);
    if (wire_type_of(l->field->type) != WIRE_BYTES)
        return check_packed(l, c, e);
    if (l->field->type == PROTOBUF_C_TYPE_STRING) {
        if (memchr(c.at, '\0', n))
            return fail(l, e, "a string may not hold a NUL byte");
        if (!str_is_utf8(c.at, n))
            return fail(l, e, "a string must be UTF-8");
    }
    if (l->field->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    if (l->field->label != PROTOBUF_C_LABEL_REPEATED && seen_before(l))
        return fail(l, e, "the message is given twice");
    if (l->depth + 1 > PB_MAX_DEPTH)
        return fail(l, e, "messages are nested too deep");
    struct level below = {.up = l, .type = l->field->descriptor, .whole = c, .depth = l->depth + 1};
    return check_message(&below, e);
}

static int check_field(struct level *l, struct cursor *c, enum wire_type wire, struct err *e) {
    uint64_t n;
    switch (wire) {
    case WIRE_VARINT:
        return read_varint(c, &n) ? 0 : fail(l, e, "a number is cut short or too long");
    case WIRE_64:
        return skip(c, 8) ? 0 : fail(l, e, "a number is cut short");
    case WIRE_32:
        return skip(c, 4) ? 0 : fail(l, e, "a number is cut short");
    case WIRE_BYTES:
        if (!read_varint32(c, &n) || n > (size_t)(c->end - c->at))
            return fail(l, e, "a length runs past the end of the message");
        struct cursor inner = {c->at, c->at + n};
        c->at += n;
        return l->field ? check_bytes(l, inner, e) : 0;
    default:
        return fail(l, e, "a field has an unknown wire type");
    }
}

static int check_message(struct level *l, struct err *e) {
    struct cursor c = l->whole;
    while (c.at < c.end) {
        uint64_t tag;
        l->field = NULL;
        l->field_at = c.at;
        if (!read_varint32(&c, &tag) || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
            return fail(l, e, "a field number is not valid");
        enum wire_type wire = (enum wire_type)(tag & 7);
        l->field = protobuf_c_message_descriptor_get_field(l->type, (unsigned)(tag >> 3));
        if (l->field && !wire_type_fits(l->field, wire))
            return fail(l, e, "the field has another type");
        int r = check_field(l, &c, wire, e);
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

static int check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                 struct err *e) {
    struct level top = {.type = type, .whole = {bytes, bytes + n}, .depth = 1};
    return check_message(&top, e);
}

/* The bytes were checked, so what is left to fail is memory. */
static int unpack(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
                  struct arena *arena, ProtobufCMessage **ret_message, struct err *e) {
    ProtobufCAllocator allocator = {on_alloc, on_free, arena};
    ProtobufCMessage *m = protobuf_c_message_unpack(type, &allocator, n, bytes);
    if (!m)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_MESSAGE_DECODED, (int64_t)arena->max_bytes,
                         "the decoded message needs more than %zu bytes", arena->max_bytes);
    *ret_message = m;
    return 0;
}

int pb_decode(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t n,
              struct arena *arena, ProtobufCMessage **ret_message, struct err *e) {
    int r = check(type, bytes, n, e);
    return r < 0 ? r : unpack(type, bytes, n, arena, ret_message, e);
}

/* NULL unless the message is one choice of a oneof, of type bytes, and nothing else. */
static ProtobufCMessage *borrow(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                size_t n, struct arena *arena) {
    struct cursor c = {bytes, bytes + n};
    uint64_t tag, length;
    if (!read_varint32(&c, &tag) || (tag & 7) != WIRE_BYTES || !read_varint32(&c, &length) ||
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
    int r = check(type, bytes, n, e);
    ProtobufCMessage *m = r < 0 ? NULL : borrow(type, bytes, n, arena);
    if (r < 0 || !m)
        return r < 0 ? r : unpack(type, bytes, n, arena, ret_message, e);
    *ret_message = m;
    return 0;
}

bool pb_next_field(const uint8_t **at, const uint8_t *end, struct pb_field *ret_field) {
    struct cursor c = {*at, end};
    struct pb_field f = {0};
    uint64_t tag, n;
    if (!read_varint32(&c, &tag) || tag >> 3 == 0 || tag >> 3 > MAX_FIELD_NUMBER)
        return false;
    f.id = (uint32_t)(tag >> 3);
    f.is_bytes = (tag & 7) == WIRE_BYTES;
    if (f.is_bytes) {
        if (!read_varint32(&c, &n) || n > (size_t)(c.end - c.at))
            return false;
        f.bytes = c.at;
        f.n = (size_t)n;
        c.at += n;
    } else if ((tag & 7) != WIRE_VARINT || !read_varint(&c, &f.number)) {
        return false;
    }
    *at = c.at;
    *ret_field = f;
    return true;
}
