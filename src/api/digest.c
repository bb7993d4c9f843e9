#include "api/digest.h"

#include <assert.h>
#define XXH_STATIC_LINKING_ONLY /* declares the state struct, so that it can be on the stack */
#include <xxhash.h>

/* A protobuf-c buffer that passes the packed bytes to the hash without a copy. */
struct sink {
    ProtobufCBuffer base;
    XXH3_state_t *state;
};

static void digest_on_append(ProtobufCBuffer *b, size_t n, const uint8_t *bytes) {
    XXH3_128bits_update(((struct sink *)b)->state, bytes, n);
}

/* Prefix a slice with its length, so that different lists of slices differ. */
static void digest_put(XXH3_state_t *state, struct str s) {
    uint64_t n = s.n;
    XXH3_128bits_update(state, &n, sizeof n);
    XXH3_128bits_update(state, s.p, s.n);
}

static bool digest_is_left_out(const ProtobufCFieldDescriptor *f, const char *const *without,
                               size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(f->name, without[i]) == 0)
            return true;
    return false;
}

static size_t digest_field_size(const ProtobufCFieldDescriptor *f) {
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return sizeof(char *);
    return f->type == PROTOBUF_C_TYPE_INT64 || f->type == PROTOBUF_C_TYPE_UINT64 ? 8 : 4;
}

/* Copies the message struct and clears the excluded fields. The digest then ignores them, because
 * protobuf-c does not pack zero values. */
static void digest_copy_without(const ProtobufCMessage *m, const char *const *without, size_t n,
                                uint8_t *copy) {
    memcpy(copy, m, m->descriptor->sizeof_message);
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (digest_is_left_out(f, without, n))
            memset(copy + f->offset, 0, digest_field_size(f));
    }
}

void digest_message(struct str salt, struct str path, const ProtobufCMessage *m,
                    const char *const *without, size_t n_without, uint8_t out[DIGEST_BYTES]) {
    XXH3_state_t state;
    struct sink sink = {{digest_on_append}, &state};
    XXH128_canonical_t canonical;
    _Alignas(max_align_t) uint8_t copy[512];
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset(&state);
    digest_put(&state, salt);
    digest_put(&state, path);
    assert(m->descriptor->sizeof_message <= sizeof copy);
    digest_copy_without(m, without, n_without, copy);
    protobuf_c_message_pack_to_buffer((ProtobufCMessage *)copy, &sink.base);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}
