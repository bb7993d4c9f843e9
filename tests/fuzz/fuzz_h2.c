/* h2 — any bytes for a server that replies, holds back, resets and drains meanwhile. The first byte
 * chooses the behaviour, the second the size of the pieces. */
#include "fuzz.h"

#include "base/list.h"
#include "wire/h2.h"

enum how {
    WITH_PREFACE = 1,
    LATE_ANSWER = 2,
    KEEP_WINDOW = 4,
    DRAIN = 8,
    RARE_PULLS = 16,
    REFUSE = 32,
    NO_GATHER = 64
};

#define MAX_DATA ((size_t)96 << 10)
#define PULL_BYTES (H2_HEAD_BYTES + MAX_DATA)

/* A peer that accepts large frames and has a large window. */
static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                 "\0\0\14\4\0\0\0\0\0"
                                 "\0\4\0\20\0\0"
                                 "\0\5\0\20\0\0"
                                 "\0\0\4\10\0\0\0\0\0"
                                 "\0\20\0\0";

struct exchange {
    struct h2_stream stream;
    struct list in_all;
    size_t owed;   /* of the body, to be echoed */
    uint8_t *body; /* a pull takes at most this much */
    bool requested;
    bool body_ended;
};

struct run {
    unsigned how;
    unsigned n_opened;
    struct list all;
};

static struct run *run; /* only on_open gets a user pointer */

static struct exchange *of(struct h2_stream *s) {
    return container_of(s, struct exchange, stream);
}

static void exchange_free(struct exchange *x) {
    list_remove(&x->in_all);
    free(x->body);
    free(x);
}

static struct h2_stream *on_open(void *user) {
    CHECK(user == run);
    if ((run->how & REFUSE) && run->n_opened++ % 3 == 2)
        return NULL;
    struct exchange *x = calloc(1, sizeof *x);
    CHECK(x);
    x->body = malloc(PULL_BYTES);
    CHECK(x->body);
    memset(x->body, 'x', PULL_BYTES);
    list_push_back(&run->all, &x->in_all);
    return &x->stream;
}

static void on_header(struct h2_stream *s, struct str name, struct str value) {
    CHECK(!of(s)->requested && s->n_headers <= 128 && s->header_bytes <= 1000);
    CHECK(name.p[name.n] == '\0' &&
          value.p[value.n] == '\0'); /* the NULs show that everything was copied */
}

static void answer(struct exchange *x) {
    static const struct h2_header headers[] = {{{":status", 7}, {"200", 3}}, {{"x", 1}, {"", 0}}};
    static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};
    struct h2_stream *s = &x->stream;
    if (!s->responded) {
        int r = h2_respond(s, headers, COUNT_OF(headers), s->id % 8 == 7);
        CHECK(r == 0);
    }
    if (x->body_ended && !s->finished)
        h2_finish(s, trailers, COUNT_OF(trailers));
    h2_resume(s);
}

static void on_request(struct h2_stream *s) {
    struct exchange *x = of(s);
    CHECK(!x->requested);
    x->requested = true;
    if (s->id % 16 == 11)
        h2_reset(s);
    else if (!(run->how & LATE_ANSWER))
        answer(x);
}

static void on_body(struct h2_stream *s, const uint8_t *bytes, size_t n) {
    struct exchange *x = of(s);
    volatile uint8_t last = bytes[n - 1];
    (void)last;
    CHECK(x->requested && !x->body_ended && s->unconsumed_bytes >= n);
    x->owed += n;
    if (!(run->how & KEEP_WINDOW))
        h2_consume(s, n);
    if (s->responded)
        h2_resume(s);
}

static void on_body_end(struct h2_stream *s) {
    struct exchange *x = of(s);
    CHECK(x->requested && !x->body_ended);
    x->body_ended = true;
    answer(x);
}

static size_t on_body_left(struct h2_stream *s) {
    return of(s)->owed;
}

static const uint8_t *on_body_at(struct h2_stream *s) {
    CHECK(of(s)->owed > 0);
    return of(s)->body;
}

static void on_pulled(struct h2_stream *s, size_t n) {
    struct exchange *x = of(s);
    CHECK(n > 0 && n <= PULL_BYTES && n <= x->owed);
    x->owed -= n;
}

static void on_close(struct h2_stream *s) {
    exchange_free(of(s));
}

static bool pull(struct h2 *h) {
    uint8_t *out = malloc(PULL_BYTES); /* the minimum size, so that an overrun is noticed */
    bool more = true;
    ssize_t n = 0;
    CHECK(out);
    for (unsigned turns = 0; more && turns < 64; turns++) {
        struct gather_list gather = {.n = 0};
        n = h2_pull(h, out, PULL_BYTES, 0, run->how & NO_GATHER ? NULL : &gather, &more);
        CHECK(n <= (ssize_t)PULL_BYTES);
        if (n < 0)
            break;
        gather_copy(&gather, out); /* the parts are still valid and fit into the block */
        h2_sent(h);
    }
    free(out);
    return n >= 0;
}

static void talk(struct h2 *h, struct feed *f, size_t piece) {
    bool lives = true;
    if (run->how & WITH_PREFACE)
        lives = h2_feed(h, preface, sizeof preface - 1) == 0;
    for (unsigned turn = 0; lives && f->n > 0; turn++) {
        struct feed part = feed_take(f, piece);
        uint8_t *copy = malloc(part.n); /* so that reading past the end is noticed */
        CHECK(copy);
        memcpy(copy, part.at, part.n);
        lives = h2_feed(h, copy, part.n) == 0;
        free(copy);
        if (turn == 2 && (run->how & DRAIN))
            h2_drain(h, piece % 16 == 1);
        if (turn % 5 == 4)
            h2_ping(h);
        if (!(run->how & RARE_PULLS) || turn % 4 == 3)
            lives = pull(h) && lives;
        LIST_FOR_EACH(node, &run->all) {
            struct exchange *x = container_of(node, struct exchange, in_all);
            if (x->requested && turn % 3 == 2)
                answer(x);
        }
    }
    pull(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct h2_events events = {.on_open = on_open,
                                            .on_header = on_header,
                                            .on_request = on_request,
                                            .on_body = on_body,
                                            .on_body_end = on_body_end,
                                            .on_body_left = on_body_left,
                                            .on_body_at = on_body_at,
                                            .on_pulled = on_pulled,
                                            .on_close = on_close};
    static const struct h2_limits limits = {8, 65535, 1 << 17, 1000, MAX_DATA};
    struct feed f = {data, size};
    struct run here = {.how = feed_byte(&f)};
    size_t piece = (size_t)feed_byte(&f) * 8 + 1;
    struct h2 *h;
    list_init(&here.all);
    run = &here;
    CHECK(h2_new(&h, &events, &limits, run) == 0);
    talk(h, &f, piece);
    h2_free(h);
    while (!list_is_empty(&here.all))
        exchange_free(container_of(here.all.next, struct exchange, in_all));
    return 0;
}
