#include "api/digest.h"

#include <assert.h>
#define XXH_STATIC_LINKING_ONLY /* its state on our stack */
#include <xxhash.h>

/* What protobuf-c packs goes into the digest as it comes; nothing is copied. */
struct sink {
    ProtobufCBuffer base;
    XXH3_state_t *state;
};

static void on_append(ProtobufCBuffer *b, size_t n, const uint8_t *bytes) {
    XXH3_128bits_update(((struct sink *)b)->state, bytes, n);
}

/* A slice with its length before it, so that no two lists of slices look the same. */
static void put(XXH3_state_t *state, struct str s) {
    uint64_t n = s.n;
    XXH3_128bits_update(state, &n, sizeof n);
    XXH3_128bits_update(state, s.p, s.n);
}

static bool is_left_out(const ProtobufCFieldDescriptor *f, const char *const *without, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(f->name, without[i]) == 0)
            return true;
    return false;
}

static size_t size_of(const ProtobufCFieldDescriptor *f) {
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return sizeof(char *);
    return f->type == PROTOBUF_C_TYPE_INT64 || f->type == PROTOBUF_C_TYPE_UINT64 ? 8 : 4;
}

/* The message's own struct again, with some of its plain fields at zero: what zero means is not packed. */
static void copy_without(const ProtobufCMessage *m, const char *const *without, size_t n,
                         uint8_t *copy) {
    memcpy(copy, m, m->descriptor->sizeof_message);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (is_left_out(f, without, n))
            memset(copy + f->offset, 0, size_of(f));
    }
}

void digest_message(struct str salt, struct str path, const ProtobufCMessage *m,
                    const char *const *without, size_t n_without, uint8_t out[DIGEST_BYTES]) {
    XXH3_state_t state;
    struct sink sink = {{on_append}, &state};
    XXH128_canonical_t canonical;
    _Alignas(max_align_t) uint8_t copy[512];
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    put(&state, salt);
    put(&state, path);
    assert(m->descriptor->sizeof_message <= sizeof copy);
    copy_without(m, without, n_without, copy);
    protobuf_c_message_pack_to_buffer((ProtobufCMessage *)copy, &sink.base);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}
