#include "wire/h2.h"

#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>

#include "base/clock.h"

#define MAX_HEADERS_PER_BLOCK 128
/* Large enough for a file chunk, so that the chunk is contiguous and needs only one write. */
#define MAX_FRAME_BYTES (512u << 10)
#define USUAL_FRAME_BYTES 16384
/* A frame of this size or more is cheaper to gather than to copy. */
#define LARGE_BYTES ((size_t)8 << 10)
#define FIRST_UNKNOWN_TYPE 0x0a /* the last type of RFC 9113 is CONTINUATION, 0x09 */
/* How many frames without work (such as pings) a peer may send, and how it earns more. An honest
 * client sends at most one or two window updates per data frame that it receives, and an occasional
 * ping. */
#define BUDGET_FRAMES 1000
#define BUDGET_PER_USEFUL_FRAME 5 /* a useful frame costs 1, so it pays for four others */
#define BUDGET_PER_SECOND 50
#define BUDGET_OWN_RESET 10 /* a reset that we must send costs us more than it costs the peer */
/* Settings of nghttp2's own protection against rapid reset, raised from 1000 and 33 for clients
 * that cancel often. */
#define RESET_BURST 2000
#define RESETS_PER_SECOND 200
#define MAX_UNACKNOWLEDGED 1000

static const uint8_t DRAIN_PING[8] = {'b', 'e', 'r', 'm', 'd', 'r', 'n', 0};

struct h2 {
    nghttp2_session *session;
    const struct h2_events *events;
    void *user;
    uint32_t max_header_bytes;
    uint32_t max_data_bytes;
    const uint8_t *chunk; /* bytes that nghttp2 serialized and owns; not yet copied into `out` */
    size_t chunk_n;
    uint8_t *out; /* during h2_pull: position of the next byte */
    uint8_t *out_end;
    size_t beyond;
    bool out_full;              /* a data frame does not fit into the rest of the block */
    struct gather_list *gather; /* during h2_pull: its gather list; may be NULL */
    struct h2_stream *lenders;  /* streams whose bytes are in the gather list */
    int64_t budget;
    uint64_t budget_us; /* time of the last refill */
    bool sent_away;
    bool draining;
};

/* --- the budget for frames without work --- */

static void h2_earn(struct h2 *h) {
    h->budget = MIN(h->budget + BUDGET_PER_USEFUL_FRAME, BUDGET_FRAMES);
}

/* Every frame costs credit when it begins, even if its type is unknown. Useful frames earn more
 * than they cost. */

static void h2_charge(struct h2 *h, int64_t frames) {
    h->budget -= frames;
    if (h->budget >= 0 || h->sent_away)
        return;
    uint64_t now = clock_us();
    h->budget += (int64_t)((now - h->budget_us) * BUDGET_PER_SECOND / 1000000);
    h->budget = MIN(h->budget, BUDGET_FRAMES);
    h->budget_us = now;
    if (h->budget >= 0)
        return;
    static const char why[] = "too_many_pings"; /* gRPC clients recognise this text */
    h->sent_away = true;
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->session),
                          NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)why, sizeof why - 1);
}

/* --- receiving --- */

static struct h2_stream *h2_stream_of(struct h2 *h, int32_t id) {
    return nghttp2_session_get_stream_user_data(h->session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct h2 *h = user;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct h2_stream *s = h->sent_away ? NULL : h->events->on_open(h->user);
    if (!s)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM);
    *s = (struct h2_stream){.h2 = h, .id = frame->hd.stream_id};
    nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags,
                     void *user) {
    (void)session;
    (void)flags;
    struct h2 *h = user;
    struct h2_stream *s = h2_stream_of(h, frame->hd.stream_id);
    if (!s || frame->headers.cat != NGHTTP2_HCAT_REQUEST) /* ignore the trailers of a request */
        return 0;
    s->header_bytes += name_n + value_n;
    if (s->header_bytes > h->max_header_bytes || ++s->n_headers > MAX_HEADERS_PER_BLOCK) {
        s->headers_too_large = true;
        return 0;
    }
    h->events->on_header(s, (struct str){(const char *)name, name_n},
                         (struct str){(const char *)value, value_n});
    return 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user) {
    (void)session;
    (void)head;
    h2_charge(user, 1);
    return 0;
}

/* Charges a frame of an unknown type. Without this callback nghttp2 would skip the frame, which
 * would then cost no credit. */
static int on_unknown_frame(nghttp2_session *session, void **payload, const nghttp2_frame_hd *head,
                            void *user) {
    (void)session;
    (void)payload;
    (void)head;
    h2_charge(user, 1);
    return NGHTTP2_ERR_CANCEL;
}

static void h2_request_ended(struct h2 *h, struct h2_stream *s) {
    if (s->request_ended)
        return;
    s->request_ended = true;
    h->events->on_body_end(s);
}

static void h2_say_goodbye(struct h2 *h) {
    nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h->session), NGHTTP2_NO_ERROR,
                          NULL, 0);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)session;
    struct h2 *h = user;
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct h2_stream *s = h2_stream_of(h, frame->hd.stream_id);
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        h2_earn(h);
        if (s && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
            h->events->on_request(s);
        if (s && ends)
            h2_request_ended(h, s);
        return 0;
    case NGHTTP2_DATA:
        if (frame->hd.length > frame->data.padlen || ends)
            h2_earn(h);
        if (s && ends)
            h2_request_ended(h, s);
        return 0;
    case NGHTTP2_PING:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) && h->draining &&
            memcmp(frame->ping.opaque_data, DRAIN_PING, sizeof DRAIN_PING) == 0)
            h2_say_goodbye(h);
        return 0;
    default:
        return 0;
    }
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *user) {
    (void)flags;
    struct h2 *h = user;
    struct h2_stream *s = h2_stream_of(h, id);
    if (!s)
        return nghttp2_session_consume_connection(session, n);
    s->unconsumed_bytes += n;
    h->events->on_body(s, bytes, n);
    return 0;
}

void h2_sent(struct h2 *h) {
    while (h->lenders) {
        struct h2_stream *s = h->lenders;
        size_t n = s->lent_bytes;
        h->lenders = s->next_lender;
        s->next_lender = NULL;
        s->lent_bytes = 0;
        h->events->on_pulled(s, n);
    }
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *user) {
    (void)code;
    struct h2 *h = user;
    struct h2_stream *s = h2_stream_of(h, id);
    if (!s)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    /* Return the unread bytes to the connection's window, because nobody will read them. */
    if (s->unconsumed_bytes > 0)
        nghttp2_session_consume_connection(session, s->unconsumed_bytes);
    if (h->lenders) { /* on_close may free or move lent bytes, so copy them first */
        gather_copy(h->gather, h->gather->list[0].at);
        h2_sent(h);
    }
    h->events->on_close(s);
    return 0;
}

/* --- sending --- */

/* Resets the stream when the response has ended before the request. A reset that is submitted
 * earlier would overtake the response's headers. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    struct h2 *h = user;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
        h2_charge(h, BUDGET_OWN_RESET);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    h2_earn(h);
    struct h2_stream *s = h2_stream_of(h, frame->hd.stream_id);
    if (s && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !s->request_ended)
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
    return 0;
}

static size_t h2_to_nv(const struct h2_header *headers, size_t n, nghttp2_nv *out, size_t max) {
    n = MIN(n, max);
    for (size_t i = 0; i < n; i++)
        out[i] = (nghttp2_nv){.name = (uint8_t *)headers[i].name.p,
                              .value = (uint8_t *)headers[i].value.p,
                              .namelen = headers[i].name.n,
                              .valuelen = headers[i].value.n};
    return n;
}

static size_t h2_body_left(struct h2 *h, struct h2_stream *s) {
    return h->events->on_body_left(s) - s->lent_bytes;
}

/* Decides how much of the body the next frame takes; on_send_body copies or lends the bytes.
 * Trailers must be submitted here: earlier they would overtake the data, later they would wait for
 * flow control that they do not need. */
static ssize_t on_read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *user) {
    (void)out;
    struct h2 *h = user;
    struct h2_stream *s = source->ptr;
    size_t left = h2_body_left(h, s);
    size_t n = MIN(left, cap);
    if (n == 0 && !s->finished) {
        s->waiting = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0)
        *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    s->promised_bytes = n;
    if (n == left && s->finished) {
        nghttp2_nv nv[MAX_HEADERS_PER_BLOCK];
        size_t count = h2_to_nv(s->trailers, s->n_trailers, nv, COUNT_OF(nv));
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, id, nv, count) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

/* Returns the maximum length of the next data frame. nghttp2 allocates a buffer of this length, so
 * small bodies use the default of 16 KiB. */
static ssize_t on_frame_length(nghttp2_session *session, uint8_t type, int32_t id,
                               int32_t session_window, int32_t stream_window, uint32_t max_frame,
                               void *user) {
    (void)session;
    (void)type;
    struct h2 *h = user;
    struct h2_stream *s = h2_stream_of(h, id);
    size_t window = (size_t)MIN(session_window, stream_window);
    size_t left = MAX(s ? h2_body_left(h, s) : 0, (size_t)USUAL_FRAME_BYTES);
    return (ssize_t)MIN(MIN(window, left), MIN(max_frame, h->max_data_bytes));
}

static void h2_lend(struct h2 *h, struct h2_stream *s, size_t n) {
    if (s->lent_bytes == 0) {
        s->next_lender = h->lenders;
        h->lenders = s;
    }
    s->lent_bytes += n;
}

/* Writes the frame header and the body directly into the caller's block; nghttp2 would copy them
 * once more. */
static int on_send_body(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t n, nghttp2_data_source *source, void *user) {
    (void)session;
    (void)frame;
    struct h2 *h = user;
    struct h2_stream *s = source->ptr;
    bool lends = n >= LARGE_BYTES && h->gather && h->gather->n < GATHER_MAX;
    ptrdiff_t space = h->out_end - h->out + (lends ? (ptrdiff_t)h->beyond : 0);
    if (h->out_full || space < (ptrdiff_t)(H2_HEAD_BYTES + n)) {
        h->out_full = true;
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    const uint8_t *body = h->events->on_body_at(s) + s->lent_bytes;
    memcpy(h->out, head, H2_HEAD_BYTES);
    h->out += H2_HEAD_BYTES;
    s->promised_bytes = 0;
    if (lends)
        h->gather->list[h->gather->n++] = (struct gather_part){h->out, body, n};
    else
        memcpy(h->out, body, n);
    h->out += n;
    /* a stream releases its bytes in order, so bytes that follow lent bytes count as lent too */
    if (lends || s->lent_bytes > 0)
        h2_lend(h, s, n);
    else
        h->events->on_pulled(s, n);
    return 0;
}

int h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n, bool end) {
    nghttp2_nv nv[MAX_HEADERS_PER_BLOCK];
    nghttp2_data_provider body = {.source.ptr = s, .read_callback = on_read_body};
    s->responded = true;
    s->finished = end;
    int r = nghttp2_submit_response(s->h2->session, s->id, nv,
                                    h2_to_nv(headers, n, nv, COUNT_OF(nv)), end ? NULL : &body);
    return r == 0 ? 0 : -ENOMEM;
}

void h2_finish(struct h2_stream *s, const struct h2_header *trailers, size_t n) {
    s->trailers = trailers;
    s->n_trailers = n;
    s->finished = true;
    h2_resume(s);
}

void h2_resume(struct h2_stream *s) {
    if (!s->waiting)
        return;
    s->waiting = false;
    nghttp2_session_resume_data(s->h2->session, s->id);
}

void h2_consume(struct h2_stream *s, size_t n) {
    s->unconsumed_bytes -= n;
    nghttp2_session_consume(s->h2->session, s->id, n);
}

void h2_reset(struct h2_stream *s) {
    nghttp2_submit_rst_stream(s->h2->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_INTERNAL_ERROR);
}

/* --- the connection --- */

static int h2_session_new(struct h2 *h, const nghttp2_option *option) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return -ENOMEM;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_unpack_extension_callback(callbacks, on_unknown_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, on_frame_length);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_body);
    int r = nghttp2_session_server_new2(&h->session, callbacks, h, option);
    nghttp2_session_callbacks_del(callbacks);
    return r == 0 ? 0 : -ENOMEM;
}

static int h2_session_open(struct h2 *h, const struct h2_limits *limits) {
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return -ENOMEM;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_max_outbound_ack(option, MAX_UNACKNOWLEDGED);
    nghttp2_option_set_stream_reset_rate_limit(option, RESET_BURST, RESETS_PER_SECOND);
    for (unsigned type = FIRST_UNKNOWN_TYPE; type <= UINT8_MAX; type++)
        nghttp2_option_set_user_recv_extension_type(option, (uint8_t)type);
    int r = h2_session_new(h, option);
    nghttp2_option_del(option);
    if (r < 0)
        return r;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window_bytes},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->max_header_bytes},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, MAX_FRAME_BYTES},
    };
    if (nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, settings, COUNT_OF(settings)) != 0 ||
        nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)limits->connection_window_bytes) != 0)
        return -ENOMEM;
    return 0;
}

int h2_new(struct h2 **ret_h2, const struct h2_events *events, const struct h2_limits *limits,
           void *user) {
    struct h2 *h = calloc(1, sizeof *h);
    if (!h)
        return -ENOMEM;
    h->events = events;
    h->user = user;
    h->max_header_bytes = limits->max_header_bytes;
    h->max_data_bytes = limits->max_data_bytes;
    h->budget = BUDGET_FRAMES;
    h->budget_us = clock_us();
    int r = h2_session_open(h, limits);
    if (r < 0)
        h2_free(h);
    else
        *ret_h2 = h;
    return r;
}

void h2_free(struct h2 *h) {
    nghttp2_session_del(h->session);
    free(h);
}

int h2_feed(struct h2 *h, const uint8_t *bytes, size_t n) {
    assert(!h->lenders);
    ssize_t r = nghttp2_session_mem_recv(h->session, bytes, n);
    return r < 0 || h->sent_away ? -EPROTO : 0;
}

ssize_t h2_pull(struct h2 *h, uint8_t *out, size_t cap, size_t beyond, struct gather_list *gather,
                bool *ret_more) {
    assert(!h->lenders);
    h->out = out;
    h->out_end = out + cap;
    h->beyond = beyond;
    h->gather = gather;
    h->out_full = false;
    while (h->out < h->out_end && !h->out_full) {
        if (h->chunk_n == 0) {
            ssize_t n = nghttp2_session_mem_send(h->session, &h->chunk);
            if (n < 0)
                return -EPROTO;
            if (n == 0)
                break;
            h->chunk_n = (size_t)n;
            /* check the space again: nghttp2 may have written data frames into the block */
            continue;
        }
        size_t n = MIN(h->chunk_n, (size_t)(h->out_end - h->out));
        memcpy(h->out, h->chunk, n);
        h->out += n;
        h->chunk += n;
        h->chunk_n -= n;
    }
    h->gather = NULL;
    *ret_more = h->out_full || h->out >= h->out_end;
    return h->out - out;
}

bool h2_is_done(const struct h2 *h) {
    return !nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session);
}

void h2_drain(struct h2 *h, bool is_graceful) {
    if (h->draining)
        return;
    h->draining = true;
    if (!is_graceful) {
        h2_say_goodbye(h);
        return;
    }
    nghttp2_submit_shutdown_notice(h->session);
    nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, DRAIN_PING);
}

void h2_ping(struct h2 *h) {
    nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}
