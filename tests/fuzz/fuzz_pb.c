/* pb — any bytes as any message of the API. protobuf-c decodes what the check accepts, and a
 * decoded message can be encoded and decoded again. The first byte chooses the type, the second the
 * memory. */
#include "fuzz.h"

#include "api/call.h"
#include "api/methods.h"
#include "wire/pb.h"

#define ENOUGH_BYTES ((size_t)256 << 20)

static void check_error(const struct err *e) {
    CHECK(e->code == ERR_INVALID_ARGUMENT || e->code == ERR_LIMIT_REACHED);
    CHECK(memchr(e->field, '\0', sizeof e->field) && memchr(e->text, '\0', sizeof e->text));
    CHECK(e->text[0] != '\0');
}

/* With little memory, decoding may only fail for lack of memory. */
static void decode_small(const ProtobufCMessageDescriptor *type, struct feed f, size_t cap,
                         bool good) {
    struct arena arena;
    struct err e;
    ProtobufCMessage *m;
    CHECK(arena_init(&arena, 64, cap) == 0);
    int r = pb_decode(type, f.at, f.n, &arena, &m, &e);
    if (r < 0) {
        check_error(&e);
        CHECK(good == (e.code == ERR_LIMIT_REACHED));
    }
    CHECK(arena.used_bytes <= cap + 16 * 1024);
    arena_done(&arena);
}

static void encode_again(const ProtobufCMessage *m, struct arena *arena) {
    struct err e;
    ProtobufCMessage *again;
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(n + 1);
    CHECK(bytes && protobuf_c_message_pack(m, bytes) == n);
    int r = pb_decode(m->descriptor, bytes, n, arena, &again, &e);
    CHECK(r == 0);
    CHECK(protobuf_c_message_get_packed_size(again) == n);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct api_methods *methods = api_daemon_methods();
    struct feed f = {data, size};
    unsigned which = feed_byte(&f);
    const struct method *method = &methods->rows[which / 2 % methods->n];
    const ProtobufCMessageDescriptor *type = which % 2 == 0 ? method->request : method->response;
    size_t cap = (size_t)feed_byte(&f) * 64;
    struct arena arena;
    struct err e;
    ProtobufCMessage *m;
    CHECK(arena_init(&arena, 4096, ENOUGH_BYTES) == 0);
    int r = pb_decode(type, f.at, f.n, &arena, &m, &e);
    if (r < 0) {
        check_error(&e);
        CHECK(e.code == ERR_INVALID_ARGUMENT || f.n > 1 << 20); /* there was enough memory */
    } else {
        CHECK(protobuf_c_message_check(m));
        encode_again(m, &arena);
    }
    decode_small(type, f, cap, r == 0);
    arena_done(&arena);
    return 0;
}
