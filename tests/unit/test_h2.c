#include "wire/h2.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "harness.h"

#define MAX_DATA 16384
#define LARGE_DATA ((size_t)100 * 1024)
#define LENT_STREAMS 40
#define PULL_BYTES (H2_HEAD_BYTES + MAX_DATA)

/* Our server session and nghttp2's client session, connected without a socket. */
struct request {
    struct h2_stream stream;
    char path[64];
    size_t body_bytes;
    bool answered;
    bool closed;
    const char *left; /* remaining bytes of the response */
};

struct pair {
    struct h2 *server;
    nghttp2_session *client;
    struct request requests[300];
    size_t n_requests;
    unsigned open;
    bool hold; /* do not reply */
    bool consume_nothing;
    /* seen by the client */
    unsigned ended, resets, goaways, goaway_code;
    size_t received;
    char trailer[32];
    char goaway_text[32];
};

static struct h2_stream *on_open(void *user) {
    struct pair *p = user;
    struct request *r = &p->requests[p->n_requests++];
    p->open++;
    return &r->stream;
}

static struct request *of(struct h2_stream *s) {
    return container_of(s, struct request, stream);
}

static struct pair *current; /* only on_open gets a user pointer */

static void on_header(struct h2_stream *s, struct str name, struct str value) {
    if (str_is(name, STR(":path")))
        memcpy(of(s)->path, value.p, MIN(value.n, sizeof of(s)->path - 1));
}

static void on_request(struct h2_stream *s) {
    (void)s;
}

static void on_body(struct h2_stream *s, const uint8_t *bytes, size_t n) {
    (void)bytes;
    of(s)->body_bytes += n;
    if (!current->consume_nothing)
        h2_consume(s, n);
}

static void answer(struct h2_stream *s) {
    static const struct h2_header headers[] = {{{":status", 7}, {"200", 3}}};
    static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};
    of(s)->left = "answer";
    CHECK_INT(h2_respond(s, headers, 1, false), 0);
    h2_finish(s, trailers, 1);
    of(s)->answered = true;
}

static void on_body_end(struct h2_stream *s) {
    if (!current->hold)
        answer(s);
}

static size_t on_body_left(struct h2_stream *s) {
    return of(s)->left ? strlen(of(s)->left) : 0;
}

static const uint8_t *on_body_at(struct h2_stream *s) {
    return (const uint8_t *)of(s)->left;
}

static void on_pulled(struct h2_stream *s, size_t n) {
    of(s)->left += n;
}

static void on_close(struct h2_stream *s) {
    CHECK(!of(s)->closed);
    of(s)->closed = true;
    current->open--;
}

static const struct h2_events events = {.on_open = on_open,
                                        .on_header = on_header,
                                        .on_request = on_request,
                                        .on_body = on_body,
                                        .on_body_end = on_body_end,
                                        .on_body_left = on_body_left,
                                        .on_body_at = on_body_at,
                                        .on_pulled = on_pulled,
                                        .on_close = on_close};

static int client_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)session;
    struct pair *p = user;
    if (frame->hd.type == NGHTTP2_RST_STREAM)
        p->resets++;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        p->goaways++;
        p->goaway_code = frame->goaway.error_code;
        if (frame->goaway.opaque_data_len > 0)
            memcpy(p->goaway_text, frame->goaway.opaque_data,
                   MIN(frame->goaway.opaque_data_len, sizeof p->goaway_text - 1));
    }
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        p->ended++;
    return 0;
}

static int client_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                         size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags,
                         void *user) {
    (void)session;
    (void)frame;
    (void)flags;
    struct pair *p = user;
    if (name_n == 11 && memcmp(name, "grpc-status", 11) == 0)
        memcpy(p->trailer, value, MIN(value_n, sizeof p->trailer - 1));
    return 0;
}

static int client_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                       size_t n, void *user) {
    (void)session;
    (void)flags;
    (void)id;
    (void)bytes;
    ((struct pair *)user)->received += n;
    return 0;
}

static void pair_open(struct pair *p) {
    static const struct h2_limits limits = {256, 65536, 65536, 1024, MAX_DATA};
    nghttp2_session_callbacks *callbacks;
    memset(p, 0, sizeof *p);
    current = p;
    CHECK_INT(h2_new(&p->server, &events, &limits, p), 0);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_data);
    nghttp2_session_client_new(&p->client, callbacks, p);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(p->client, 0, NULL, 0);
}

static void pair_close(struct pair *p) {
    nghttp2_session_del(p->client);
    h2_free(p->server);
}

/* Moves bytes both ways until neither side has any. Returns the last result of h2_feed. */
static int exchange(struct pair *p) {
    int fed = 0;
    for (bool moved = true; moved;) {
        const uint8_t *out;
        uint8_t in[PULL_BYTES + 77]; /* an odd size, so that frames are split */
        bool more;
        moved = false;
        for (ssize_t n; (n = nghttp2_session_mem_send(p->client, &out)) > 0; moved = true)
            fed = h2_feed(p->server, out, (size_t)n);
        for (ssize_t n; (n = h2_pull(p->server, in, sizeof in, 0, NULL, &more)) > 0; moved = true)
            if (nghttp2_session_mem_recv(p->client, in, (size_t)n) < 0)
                return fed;
    }
    return fed;
}

static int32_t post(struct pair *p, nghttp2_data_provider *data) {
#define NV(n, v) {(uint8_t *)n, (uint8_t *)v, sizeof n - 1, sizeof v - 1, 0}
    nghttp2_nv nv[] = {NV(":method", "POST"), NV(":path", "/x"), NV(":scheme", "http"),
                       NV(":authority", "localhost")};
    return nghttp2_submit_request(p->client, NULL, nv, COUNT_OF(nv), data, NULL);
}

static ssize_t endless(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap,
                       uint32_t *flags, nghttp2_data_source *source, void *user) {
    (void)session;
    (void)id;
    (void)flags;
    (void)source;
    (void)user;
    memset(out, 'x', cap);
    return (ssize_t)cap;
}

static struct pair pair;

TEST(h2_sends_trailers_after_the_data) {
    pair_open(&pair);
    post(&pair, NULL);
    CHECK_INT(exchange(&pair), 0);
    CHECK_STR(pair.requests[0].path, "/x");
    CHECK_INT(pair.received, 6);
    CHECK_INT(pair.ended, 1);
    CHECK_STR(pair.trailer, "0");
    CHECK_INT(pair.open, 0);
    pair_close(&pair);
}

TEST(h2_resets_with_no_error_after_an_early_end) {
    nghttp2_data_provider data = {.read_callback = endless};
    pair_open(&pair);
    pair.hold = pair.consume_nothing = true; /* the window bounds the endless body */
    post(&pair, &data);
    exchange(&pair);
    answer(&pair.requests[0].stream);
    exchange(&pair);
    CHECK_INT(pair.ended, 1);
    CHECK_STR(pair.trailer, "0"); /* the trailers arrived first */
    CHECK_INT(pair.resets, 1);
    CHECK_INT(pair.open, 0);
    pair_close(&pair);
}

TEST(h2_window_stops_a_peer_whose_body_is_not_read) { /* covers: RPC-16 */
    nghttp2_data_provider data = {.read_callback = endless};
    pair_open(&pair);
    pair.hold = pair.consume_nothing = true;
    post(&pair, &data);
    exchange(&pair);
    CHECK_INT(pair.requests[0].body_bytes, 65536);
    CHECK_INT(pair.requests[0].stream.unconsumed_bytes, 65536);
    h2_reset(&pair.requests[0].stream);
    exchange(&pair);
    CHECK_INT(pair.open, 0);
    pair.hold = pair.consume_nothing = false;
    post(&pair, NULL); /* the connection's window was returned, so a new call works */
    exchange(&pair);
    CHECK_STR(pair.trailer, "0");
    pair_close(&pair);
}

TEST(h2_disconnects_a_peer_that_floods_pings) { /* covers: RPC-22 */
    pair_open(&pair);
    exchange(&pair);
    int r = 0;
    for (int i = 0; i < 2000 && r == 0; i++) {
        nghttp2_submit_ping(pair.client, 0, NULL);
        r = exchange(&pair);
    }
    CHECK_INT(r, -EPROTO);
    CHECK_INT(pair.goaways, 1);
    CHECK_INT(pair.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK_STR(pair.goaway_text, "too_many_pings");
    pair_close(&pair);
}

TEST(h2_keeps_a_peer_that_pings_between_calls) {
    pair_open(&pair);
    exchange(&pair);
    int r = 0;
    for (int i = 0; i < 3000 && r == 0; i++) {
        nghttp2_submit_ping(pair.client, 0, NULL);
        pair.n_requests = 0;
        memset(&pair.requests[0], 0, sizeof pair.requests[0]);
        post(&pair, NULL);
        r = exchange(&pair);
    }
    CHECK_INT(r, 0);
    CHECK_INT(pair.ended, 3000);
    pair_close(&pair);
}

TEST(h2_flags_oversized_headers) { /* covers: RPC-7 */
    pair_open(&pair);
    char big[1100];
    memset(big, 'a', sizeof big);
    nghttp2_nv nv[] = {NV(":method", "POST"),
                       NV(":path", "/x"),
                       NV(":scheme", "http"),
                       NV(":authority", "localhost"),
                       {(uint8_t *)"big", (uint8_t *)big, 3, sizeof big, 0}};
    nghttp2_submit_request(pair.client, NULL, nv, COUNT_OF(nv), NULL, NULL);
    exchange(&pair);
    CHECK(pair.requests[0].stream.headers_too_large);
    post(&pair, NULL);
    exchange(&pair);
    CHECK(!pair.requests[1].stream.headers_too_large);
    CHECK_INT(pair.ended, 2);
    pair_close(&pair);
}

TEST(h2_drain_finishes_open_streams_and_refuses_new_ones) { /* covers: RPC-25 */
    pair_open(&pair);
    pair.hold = true;
    post(&pair, NULL);
    exchange(&pair);
    h2_drain(pair.server, true);
    exchange(&pair);
    CHECK_INT(pair.goaways, 2); /* the notice, then the last accepted stream */
    CHECK_INT(pair.goaway_code, NGHTTP2_NO_ERROR);
    CHECK(!h2_is_done(pair.server));
    answer(&pair.requests[0].stream);
    exchange(&pair);
    CHECK_INT(pair.ended, 1);
    CHECK(h2_is_done(pair.server));
    pair_close(&pair);
}

TEST(h2_drain_of_an_idle_connection_is_done_immediately) {
    pair_open(&pair);
    exchange(&pair);
    h2_drain(pair.server, false);
    exchange(&pair);
    CHECK_INT(pair.goaways, 1);
    CHECK(h2_is_done(pair.server));
    pair_close(&pair);
}

TEST(h2_refuses_bytes_that_are_not_http2) {
    pair_open(&pair);
    static const uint8_t junk[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n........";
    CHECK_INT(h2_feed(pair.server, junk, sizeof junk), -EPROTO);
    pair_close(&pair);
}

/* Responses that are lent from memory of their own, which is freed with the stream. The block is as
 * small as possible, so that an overrun is noticed. */
struct lender {
    uint8_t *body;
    size_t n, begin;
};

static struct {
    struct lender of[LENT_STREAMS]; /* by request */
    struct gather_list gather;
    uint8_t got[LENT_STREAMS][3 * LARGE_DATA];
    size_t n_got[LENT_STREAMS];
    size_t n_parts, n_pulled;
    bool copies;
    bool moves; /* the end of one stream moves the memory of the others */
} lent;

static struct lender *lender_of(struct h2_stream *s) {
    return &lent.of[of(s) - current->requests];
}

static size_t lender_left(struct h2_stream *s) {
    return lender_of(s)->n - lender_of(s)->begin;
}

static const uint8_t *lender_at(struct h2_stream *s) {
    return lender_of(s)->body + lender_of(s)->begin;
}

static void lender_pulled(struct h2_stream *s, size_t n) {
    lender_of(s)->begin += n;
    lent.n_pulled++;
}

static void lender_move(struct lender *l, uint8_t *to) {
    if (to)
        memcpy(to, l->body, l->n);
    memset(l->body, 0xee, l->n);
    free(l->body);
    l->body = to;
}

static void lender_close(struct h2_stream *s) {
    lender_move(lender_of(s), NULL);
    for (size_t i = 0; lent.moves && i < LENT_STREAMS; i++)
        if (lent.of[i].body)
            lender_move(&lent.of[i], malloc(lent.of[i].n));
    on_close(s);
}

static int lent_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                     size_t n, void *user) {
    size_t i = (size_t)id / 2;
    memcpy(lent.got[i] + lent.n_got[i], bytes, n);
    lent.n_got[i] += n;
    return client_data(session, flags, id, bytes, n, user);
}

/* Checks that the client received all bytes unchanged. */
static bool lent_arrived(size_t i, size_t n) {
    bool same = lent.n_got[i] == n;
    for (size_t at = 0; same && at < n; at++)
        same = lent.got[i][at] == (uint8_t)(at * 31 + at / 256 + i);
    return same;
}

/* For a peer that accepts frames of `max_frame` and has a window of `window` per stream. */
static void lent_open(struct pair *p, size_t max_data, uint32_t max_frame, uint32_t window) {
    static const struct h2_events with = {.on_open = on_open,
                                          .on_header = on_header,
                                          .on_request = on_request,
                                          .on_body = on_body,
                                          .on_body_end = on_body_end,
                                          .on_body_left = lender_left,
                                          .on_body_at = lender_at,
                                          .on_pulled = lender_pulled,
                                          .on_close = lender_close};
    struct h2_limits limits = {256, 65536, 65536, 1024, (uint32_t)max_data};
    nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
                                         {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, max_frame}};
    nghttp2_session_callbacks *callbacks;
    pair_open(p);
    memset(&lent, 0, sizeof lent);
    h2_free(p->server);
    nghttp2_session_del(p->client);
    CHECK_INT(h2_new(&p->server, &with, &limits, p), 0);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_frame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, lent_data);
    nghttp2_session_client_new(&p->client, callbacks, p);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(p->client, 0, settings, COUNT_OF(settings));
    nghttp2_submit_window_update(p->client, 0, 0, 1 << 30);
    p->hold = true;
}

static void lent_close(struct pair *p) {
    for (size_t i = 0; i < LENT_STREAMS; i++)
        free(lent.of[i].body);
    pair_close(p);
}

/* Pulls once and passes the result to the client, gather parts from their own memory. */
static ssize_t lent_pull(struct pair *p, size_t cap, size_t beyond, bool *ret_more) {
    uint8_t *block = malloc(cap + beyond), *at = block;
    lent.gather.n = 0;
    ssize_t n = h2_pull(p->server, block, cap, beyond, lent.copies ? NULL : &lent.gather, ret_more);
    CHECK(n >= 0 && (size_t)n <= cap + beyond);
    for (size_t i = 0; i < lent.gather.n; i++) {
        const struct gather_part *part = &lent.gather.list[i];
        CHECK(part->at > at && part->at + part->n <= block + n);
        CHECK_INT(nghttp2_session_mem_recv(p->client, at, (size_t)(part->at - at)), part->at - at);
        CHECK_INT(nghttp2_session_mem_recv(p->client, part->bytes, part->n), part->n);
        at = part->at + part->n;
    }
    CHECK_INT(nghttp2_session_mem_recv(p->client, at, (size_t)(block + n - at)), block + n - at);
    lent.n_parts += lent.gather.n;
    free(block);
    return n;
}

static void lent_exchange(struct pair *p, size_t cap, size_t beyond) {
    const uint8_t *out;
    bool more = true;
    for (ssize_t n; (n = nghttp2_session_mem_send(p->client, &out)) > 0;)
        CHECK_INT(h2_feed(p->server, out, (size_t)n), 0);
    while (more) {
        lent_pull(p, cap, beyond, &more);
        h2_sent(p->server);
    }
}

static void lent_answer(struct pair *p, size_t i, size_t n, bool ends) {
    static const struct h2_header headers[] = {{{":status", 7}, {"200", 3}}};
    static const struct h2_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};
    lent.of[i] = (struct lender){.body = malloc(n), .n = n};
    for (size_t at = 0; at < n; at++)
        lent.of[i].body[at] = (uint8_t)(at * 31 + at / 256 + i);
    CHECK_INT(h2_respond(&p->requests[i].stream, headers, 1, false), 0);
    if (ends)
        h2_finish(&p->requests[i].stream, trailers, 1);
}

TEST(h2_sends_large_frames_without_copying) {
    size_t n = 3 * LARGE_DATA;
    size_t caps[] = {H2_HEAD_BYTES + LARGE_DATA, 4096}; /* larger than anything else in the block */
    for (size_t i = 0; i < COUNT_OF(caps); i++) {
        lent_open(&pair, LARGE_DATA, 1 << 20, 1 << 20);
        post(&pair, NULL);
        lent_exchange(&pair, caps[i], H2_HEAD_BYTES + LARGE_DATA);
        lent_answer(&pair, 0, n, true);
        lent_exchange(&pair, caps[i], H2_HEAD_BYTES + LARGE_DATA);
        CHECK(lent.n_parts > 0);
        CHECK(lent_arrived(0, n));
        CHECK_INT(pair.ended, 1);
        CHECK_STR(pair.trailer, "0");
        lent_close(&pair);
    }
}

TEST(h2_copies_large_frames_without_a_gather_list) {
    lent_open(&pair, LARGE_DATA, 1 << 20, 1 << 20);
    lent.copies = true;
    post(&pair, NULL);
    lent_exchange(&pair, H2_HEAD_BYTES + LARGE_DATA, 0);
    lent_answer(&pair, 0, 3 * LARGE_DATA, true);
    lent_exchange(&pair, H2_HEAD_BYTES + LARGE_DATA, 0);
    CHECK(lent_arrived(0, 3 * LARGE_DATA));
    CHECK_STR(pair.trailer, "0");
    lent_close(&pair);
}

/* No bytes are released before they are sent, not even a small frame after a large one. */
TEST(h2_keeps_lent_bytes_until_they_are_sent) {
    bool more;
    lent_open(&pair, MAX_DATA, MAX_DATA, 1 << 20);
    post(&pair, NULL);
    lent_exchange(&pair, LARGE_DATA, 0);
    lent_answer(&pair, 0, 2 * MAX_DATA + 9, false);
    CHECK(lent_pull(&pair, LARGE_DATA, 0, &more) > 2 * MAX_DATA + 9);
    CHECK(!more);
    CHECK_INT(lent.n_parts, 2);
    CHECK_INT(lent.n_pulled, 0);
    CHECK_INT(lent.of[0].begin, 0);
    h2_sent(pair.server);
    CHECK_INT(lent.n_pulled, 1);
    CHECK_INT(lent.of[0].begin, 2 * MAX_DATA + 9);
    h2_sent(pair.server); /* nothing left to report */
    CHECK_INT(lent.n_pulled, 1);
    CHECK(lent_arrived(0, 2 * MAX_DATA + 9));
    lent_close(&pair);
}

/* A stream that ends in the same pull frees its memory, so its parts and those of others are copied
 * into the block. */
TEST(h2_copies_the_gather_parts_of_an_ending_stream) {
    nghttp2_data_provider body = {.read_callback = endless};
    bool more;
    lent_open(&pair, MAX_DATA, MAX_DATA, 1 << 20);
    post(&pair, NULL);
    post(&pair, &body); /* its request continues, so its end is a reset */
    post(&pair, NULL);
    lent_exchange(&pair, LARGE_DATA, 0);
    lent_answer(&pair, 0, 20000, true);
    lent_answer(&pair, 1, 20000, true);
    lent_answer(&pair, 2, 3 * MAX_DATA, false);
    lent_pull(&pair, LARGE_DATA, 0, &more);
    CHECK(!more);
    CHECK(lent.of[0].body == NULL);
    CHECK(lent.of[1].body == NULL);
    h2_sent(pair.server);
    CHECK(lent_arrived(0, 20000));
    CHECK(lent_arrived(1, 20000));
    CHECK(lent_arrived(2, 3 * MAX_DATA));
    CHECK_INT(lent.of[2].begin, 3 * MAX_DATA);
    lent_close(&pair);
}

TEST(h2_copies_the_gather_parts_of_others_when_a_stream_ends) {
    bool more;
    lent_open(&pair, MAX_DATA, MAX_DATA, 1 << 20);
    lent.moves = true;
    for (int i = 0; i < 3; i++)
        post(&pair, NULL);
    lent_exchange(&pair, LARGE_DATA, 0);
    lent_answer(&pair, 0, 20000, false);
    lent_answer(&pair, 1, 100, true); /* has lent nothing itself */
    lent_answer(&pair, 2, 20000, false);
    lent_pull(&pair, LARGE_DATA, 0, &more);
    CHECK(lent.of[1].body == NULL);
    h2_sent(pair.server);
    CHECK(lent_arrived(0, 20000));
    CHECK(lent_arrived(1, 100));
    CHECK(lent_arrived(2, 20000));
    lent_close(&pair);
}

TEST(h2_copies_parts_past_the_end_of_the_gather_list) {
    size_t n = 9000;
    lent_open(&pair, MAX_DATA, MAX_DATA, (uint32_t)n);
    for (unsigned i = 0; i < LENT_STREAMS; i++)
        post(&pair, NULL);
    lent_exchange(&pair, 4 * LARGE_DATA, 0);
    for (unsigned i = 0; i < LENT_STREAMS; i++)
        lent_answer(&pair, i, n, false);
    lent_exchange(&pair, 4 * LARGE_DATA, 0);
    CHECK_INT(lent.n_parts, GATHER_MAX);
    CHECK_INT(lent.n_pulled, LENT_STREAMS);
    for (unsigned i = 0; i < LENT_STREAMS; i++)
        CHECK(lent_arrived(i, n));
    lent_close(&pair);
}
