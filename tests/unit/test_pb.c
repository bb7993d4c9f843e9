#include "wire/pb.h"

#include "berm/v1/berm.pb-c.h"
#include "harness.h"

typedef Berm__V1__CreateSandboxRequest request;

static int decode(const void *bytes, size_t n, size_t arena_bytes, request **ret, struct err *e) {
    static struct arena arena;
    if (arena.blocks)
        arena_done(&arena);
    if (arena_init(&arena, 1024, arena_bytes) < 0)
        return -ERR_INTERNAL;
    ProtobufCMessage *m = NULL;
    int r = pb_decode(&berm__v1__create_sandbox_request__descriptor, bytes, n, &arena, &m, e);
    *ret = (request *)m;
    if (r < 0)
        arena_done(&arena);
    return r;
}

#define DECODE(bytes) decode(bytes, sizeof(bytes) - 1, 1 << 20, &r, &e)

TEST(pb_decodes_valid_messages) {
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x0a\x02id\x1a\x0a\x0a\x08\x0a\x03key\x12\x01v"), 0);
    CHECK_STR(r->sandbox_id, "id");
    CHECK_INT(r->spec->n_labels, 1);
    CHECK_STR(r->spec->labels[0]->key, "key");
    CHECK_STR(r->spec->labels[0]->value, "v");
    CHECK_INT(DECODE(""), 0);
    CHECK_STR(r->sandbox_id, "");
}

TEST(pb_refuses_strings_with_nul_or_bad_utf8_and_names_the_path) { /* covers: RPC-13 */
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x0a\x03"
                     "a\0b"),
              -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "sandbox_id");
    CHECK_INT(DECODE("\x0a\x01\xff"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "sandbox_id");
    /* a valid label, then one with an invalid value */
    CHECK_INT(DECODE("\x1a\x0a"
                     "\x0a\x03\x0a\x01k"
                     "\x0a\x03\x12\x01\xff"),
              -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.labels[1].value");
}

TEST(pb_refuses_malformed_bytes) {
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x0a"), -ERR_INVALID_ARGUMENT);       /* no length */
    CHECK_INT(DECODE("\x0a\x05id"), -ERR_INVALID_ARGUMENT); /* length too long */
    CHECK_INT(DECODE("\x70"), -ERR_INVALID_ARGUMENT);       /* truncated number */
    CHECK_INT(DECODE("\x70\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(DECODE("\x08\x01"), -ERR_INVALID_ARGUMENT); /* string as number */
    CHECK_STR(e.field, "sandbox_id");
    CHECK_INT(DECODE("\x02\x00"), -ERR_INVALID_ARGUMENT);         /* field 0 */
    CHECK_INT(DECODE("\x0b\x0c"), -ERR_INVALID_ARGUMENT);         /* a group */
    CHECK_INT(DECODE("\x9b\x06\x9c\x06"), -ERR_INVALID_ARGUMENT); /* an unknown group */
    CHECK_INT(DECODE("\x0f"), -ERR_INVALID_ARGUMENT);             /* wire type 7 */
}

TEST(pb_refuses_tags_and_lengths_that_protobuf_c_would_not_read) {
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x8a\x80\x80\x80\x80\x80\x00\x01x"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(DECODE("\x0a\x81\x80\x80\x80\x80\x00x"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(DECODE("\x0a\x81\x80\x80\x80\x00x"), 0); /* five bytes are read */
}

TEST(pb_ignores_unknown_fields) { /* covers: RPC-14 */
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x98\x06\x01\xa2\x06\x02\xff\xfe\x0a\x01x\xa9\x06"
                     "12345678\xad\x06"
                     "1234"),
              0);
    CHECK_STR(r->sandbox_id, "x");
}

TEST(pb_refuses_a_duplicate_sub_message) { /* covers: RPC-14 */
    struct err e;
    request *r;
    CHECK_INT(DECODE("\x1a\x00\x1a\x00"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec");
    CHECK_INT(DECODE("\x0a\x01x\x0a\x01y"), 0); /* a duplicate string: the last one wins */
    CHECK_STR(r->sandbox_id, "y");
}

/* A message type that contains itself. The API has none, but it must not crash. */
static ProtobufCMessageDescriptor recursive;
static const ProtobufCFieldDescriptor recursive_field = {.name = "self",
                                                         .id = 1,
                                                         .label = PROTOBUF_C_LABEL_REPEATED,
                                                         .type = PROTOBUF_C_TYPE_MESSAGE,
                                                         .descriptor = &recursive};
static const ProtobufCIntRange recursive_range[] = {{1, 0}, {0, 1}};
static ProtobufCMessageDescriptor recursive = {.magic = PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC,
                                               .name = "Recursive",
                                               .sizeof_message = sizeof(ProtobufCMessage),
                                               .n_fields = 1,
                                               .fields = &recursive_field,
                                               .n_field_ranges = 1,
                                               .field_ranges = recursive_range};

TEST(pb_bounds_the_depth) { /* covers: RPC-14 */
    struct err e;
    struct arena arena;
    ProtobufCMessage *m;
    uint8_t bytes[60000];
    size_t at = sizeof bytes;
    bytes[--at] = 0;
    bytes[--at] = 0x0a;
    for (size_t n = 2; at > 8; n = sizeof bytes - at) { /* each level wraps the previous one */
        size_t len = n;
        uint8_t varint[3];
        size_t v = 0;
        do {
            varint[v++] = (uint8_t)((len & 0x7f) | (len > 0x7f ? 0x80 : 0));
            len >>= 7;
        } while (len > 0);
        at -= v;
        memcpy(bytes + at, varint, v);
        bytes[--at] = 0x0a;
    }
    CHECK_INT(arena_init(&arena, 1024, 1 << 20), 0);
    CHECK_INT(pb_decode(&recursive, bytes + at, sizeof bytes - at, &arena, &m, &e),
              -ERR_INVALID_ARGUMENT);
    CHECK(strstr(e.text, "deep") != NULL);
    arena_done(&arena);
}

TEST(pb_bounds_the_memory_of_a_message) { /* covers: RPC-15 */
    struct err e;
    request *r;
    static uint8_t bytes[3 + 40000];
    memcpy(bytes, "\x1a\xc0\xb8\x02", 4); /* spec of 40000 bytes: 20000 empty labels */
    static uint8_t message[4 + 40000];
    memcpy(message, bytes, 4);
    for (size_t i = 0; i < 20000; i++)
        memcpy(message + 4 + 2 * i, "\x0a\x00", 2);
    CHECK_INT(decode(message, sizeof message, 100000, &r, &e), -ERR_LIMIT_REACHED);
    CHECK_INT(decode(message, sizeof message, 16 << 20, &r, &e), 0);
    CHECK_INT(r->spec->n_labels, 20000);
}

TEST(pb_checks_packed_numbers) {
    struct err e;
    request *r;
    /* wait_ms is not repeated, so the packed form is a wrong type */
    CHECK_INT(DECODE("\x72\x01\x01"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "wait_ms");
}

TEST(pb_duplicate_check_covers_every_type) {
    static const ProtobufCServiceDescriptor *const services[] = {
        &berm__v1__sandbox_service__descriptor, &berm__v1__exec_service__descriptor,
        &berm__v1__file_service__descriptor, &berm__v1__system_service__descriptor};
    for (size_t s = 0; s < COUNT_OF(services); s++)
        for (unsigned i = 0; i < services[s]->n_methods; i++)
            CHECK(services[s]->methods[i].input->n_fields <= 128);
}

static const Berm__V1__WriteFileRequest *in_place(const uint8_t *bytes, size_t n) {
    static struct arena arena;
    struct err e;
    ProtobufCMessage *m = NULL;
    if (arena.blocks)
        arena_done(&arena);
    CHECK_INT(arena_init(&arena, 1024, 1 << 20), 0);
    CHECK_INT(
        pb_decode_in_place(&berm__v1__write_file_request__descriptor, bytes, n, &arena, &m, &e), 0);
    return (const void *)m;
}

TEST(pb_in_place_copies_no_bytes_of_an_upload) {
    static const uint8_t data[] = "\x12\x03"
                                  "abc";
    const Berm__V1__WriteFileRequest *m = in_place(data, 5);
    CHECK_INT(m->part_case, BERM__V1__WRITE_FILE_REQUEST__PART_DATA);
    CHECK_INT(m->data.len, 3);
    CHECK(m->data.data == data + 2);
    m = in_place(data, 0);
    CHECK_INT(m->part_case, BERM__V1__WRITE_FILE_REQUEST__PART__NOT_SET);
}

TEST(pb_in_place_decodes_all_other_messages) {
    static const uint8_t header[] = "\x0a\x04\x0a\x02id", twice[] = "\x12\x01"
                                                                    "a\x12\x02"
                                                                    "bc";
    const Berm__V1__WriteFileRequest *m = in_place(header, 6);
    CHECK_INT(m->part_case, BERM__V1__WRITE_FILE_REQUEST__PART_HEADER);
    CHECK_STR(m->header->sandbox_id, "id");
    m = in_place(twice, 7);
    CHECK_INT(m->part_case, BERM__V1__WRITE_FILE_REQUEST__PART_DATA);
    CHECK_INT(m->data.len, 2);
    CHECK(memcmp(m->data.data, "bc", 2) == 0);
}

TEST(pb_in_place_refuses_truncated_messages) {
    struct err e;
    struct arena arena;
    ProtobufCMessage *m;
    CHECK_INT(arena_init(&arena, 1024, 1 << 20), 0);
    CHECK_INT(pb_decode_in_place(&berm__v1__write_file_request__descriptor,
                                 (const uint8_t *)"\x12\x04"
                                                  "abc",
                                 5, &arena, &m, &e),
              -ERR_INVALID_ARGUMENT);
    arena_done(&arena);
}
