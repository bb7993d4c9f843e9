/* grpc — the reader returns the same messages however its input is split; encoded texts
 * round-trip. */
#include "fuzz.h"

#include "wire/grpc.h"

#define MOST_BYTES ((size_t)300)

struct outcome {
    enum grpc_read end;
    size_t n_messages;
    uint64_t sum; /* hash of lengths, flags and bytes, in order */
    size_t pending;
};

static void add(struct outcome *o, const struct grpc_frame *frame) {
    CHECK(frame->n <= MOST_BYTES);
    o->n_messages++;
    o->sum = (o->sum ^ (frame->n << 1 | frame->compressed)) * 1099511628211u;
    for (size_t i = 0; i < frame->n; i++)
        o->sum = (o->sum ^ frame->bytes[i]) * 1099511628211u;
}

static struct outcome read_in_pieces(struct feed body, struct feed sizes) {
    struct grpc_reader reader;
    struct outcome o = {.end = GRPC_READ_MORE};
    struct grpc_frame frame;
    grpc_reader_init(&reader, MOST_BYTES);
    while (o.end == GRPC_READ_MORE && body.n > 0) {
        struct feed part = feed_take(&body, sizes.n > 0 ? (size_t)feed_byte(&sizes) + 1 : body.n);
        uint8_t *copy = malloc(part.n);
        CHECK(copy);
        memcpy(copy, part.at, part.n);
        const uint8_t *at = copy;
        while ((o.end = grpc_reader_next(&reader, &at, copy + part.n, &frame)) == GRPC_READ_MESSAGE)
            add(&o, &frame);
        CHECK(o.end != GRPC_READ_NO_MEMORY && (o.end != GRPC_READ_MORE || at == copy + part.n));
        CHECK(grpc_reader_pending(&reader) < MOST_BYTES + GRPC_PREFIX_BYTES);
        free(copy);
    }
    o.pending = o.end == GRPC_READ_MORE ? grpc_reader_pending(&reader) : 0;
    grpc_reader_done(&reader);
    return o;
}

static void check_reader(struct feed body, struct feed sizes) {
    struct outcome whole = read_in_pieces(body, (struct feed){0});
    struct outcome cut = read_in_pieces(body, sizes);
    CHECK(whole.end == cut.end && whole.n_messages == cut.n_messages && whole.sum == cut.sum);
    CHECK(whole.pending == cut.pending);
}

static void check_timeout(struct str text) {
    uint64_t us = 0;
    int r = grpc_parse_timeout(text, &us);
    bool good =
        text.n >= 2 && text.n <= 9 && strchr("HMSmun", text.p[text.n - 1]) && text.p[text.n - 1];
    for (size_t i = 0; good && i < text.n - 1; i++)
        good = text.p[i] >= '0' && text.p[i] <= '9';
    CHECK((r == 0) == good);
    CHECK(us <= (uint64_t)99999999 * 3600 * 1000000);
}

static int hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void check_message(struct str text, struct arena *arena) {
    struct str coded = grpc_encode_message(text, arena);
    size_t i = 0;
    CHECK(coded.p);
    for (size_t at = 0; at < coded.n; at++, i++) {
        unsigned char c = (unsigned char)coded.p[at];
        CHECK(c >= 0x20 && c <= 0x7e && i < text.n);
        if (c == '%') {
            CHECK(at + 2 < coded.n);
            c = (unsigned char)(hex(coded.p[at + 1]) << 4 | hex(coded.p[at + 2]));
            at += 2;
        }
        CHECK(c == (unsigned char)text.p[i]);
    }
    CHECK(i == text.n);
}

static void check_status(struct str text, struct arena *arena) {
    struct grpc_detail details[GRPC_ERROR_DETAILS];
    struct err e;
    err_field(&e, text.n % 2 == 0 ? "" : "spec.labels[3].value", "%.*s", (int)text.n, text.p);
    size_t n = grpc_error_details(&e, arena, details);
    CHECK(n == (text.n % 2 == 0 ? 1 : 2));
    struct str coded = grpc_encode_status(GRPC_INVALID_ARGUMENT, text, details, n, arena);
    CHECK(coded.n <= BASE64_BYTES(8 * 1024) && (coded.n > 0 || text.n > 7000));
    uint8_t *raw = arena_alloc(arena, coded.n * 3 / 4 + 3);
    CHECK(raw && base64_decode(coded.p, coded.n, raw) >= 0);
    if (coded.n > 0)
        CHECK(raw[0] == 8 && raw[1] == GRPC_INVALID_ARGUMENT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, size};
    size_t n_sizes = feed_byte(&f);
    struct feed sizes = feed_take(&f, n_sizes);
    struct str text = {(const char *)f.at, MIN(f.n, (size_t)9000)};
    struct arena arena;
    check_reader(f, sizes);
    check_timeout(text);
    CHECK(arena_init(&arena, 4096, 1 << 20) == 0);
    check_message(text, &arena);
    check_status(text, &arena);
    arena_done(&arena);
    return 0;
}
