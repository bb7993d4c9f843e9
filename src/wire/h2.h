/* h2 — the server side of one HTTP/2 connection, without I/O; the only file that includes nghttp2.
 *
 * Owner:   the connection.     End: h2_free; streams that are still open get no callback.
 * Streams: on_open returns an object that embeds a struct h2_stream. The user owns it until
 *          on_close, which fires exactly once, as the stream's last callback.
 * Sending: pull. When the socket is writable, h2_pull asks each stream with pending data for bytes.
 * Bounds:  h2 does not store header blocks over max_header_bytes but flags them. Frames that do no
 *          work (pings, settings, resets, empty data) consume a budget that useful frames refill.
 *          When it is empty, h2 sends GOAWAY with ENHANCE_YOUR_CALM.
 * Errors:  -EPROTO ends the connection; -ENOMEM from h2_new and h2_respond.
 * Inside a callback you may call any function here except h2_feed, h2_pull and h2_free. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/gather.h"
#include "base/macros.h"
#include "base/str.h"

struct h2;

struct h2_header {
    struct str name; /* lower case */
    struct str value;
};

struct h2_stream {
    struct h2 *h2;
    int32_t id;
    unsigned n_headers;
    size_t header_bytes;
    size_t unconsumed_bytes; /* request bytes that still count against the peer's window */
    size_t promised_bytes;   /* response bytes in a frame that waits for space in the block */
    size_t lent_bytes;       /* response bytes that the sender uses until h2_sent; must not move */
    struct h2_stream *next_lender;
    const struct h2_header *trailers;
    size_t n_trailers;
    bool headers_too_large;
    bool request_ended; /* the peer sends no more data */
    bool responded;
    bool finished; /* the trailers are set, or the response ended with its headers */
    bool waiting;  /* the stream has nothing to send until h2_resume */
};

struct h2_events {
    /* A request starts. Return NULL to refuse it. */
    struct h2_stream *(*on_open)(void *user);
    void (*on_header)(struct h2_stream *s, struct str name, struct str value);
    void (*on_request)(struct h2_stream *s); /* all headers have arrived */
    void (*on_body)(struct h2_stream *s, const uint8_t *bytes, size_t n);
    void (*on_body_end)(struct h2_stream *s);
    /* Returns the number of response bytes that can be sent now. */
    size_t (*on_body_left)(struct h2_stream *s);
    /* Returns the address of the response bytes that can be sent now. They must be contiguous. */
    const uint8_t *(*on_body_at)(struct h2_stream *s);
    /* The first n bytes were copied or sent, and the stream may release them. Until then,
     * promised_bytes must stay available, and lent_bytes must also stay at the same address. */
    void (*on_pulled)(struct h2_stream *s, size_t n);
    void (*on_close)(struct h2_stream *s);
};

struct h2_limits {
    uint32_t max_streams;
    uint32_t stream_window_bytes;
    uint32_t connection_window_bytes;
    uint32_t max_header_bytes;
    /* maximum body of a data frame that h2 sends; the peer may set a lower one */
    uint32_t max_data_bytes;
};

MUST_USE int h2_new(struct h2 **ret_h2, const struct h2_events *events,
                    const struct h2_limits *limits, void *user);
void h2_free(struct h2 *h);

/* Processes bytes from the peer. A negative result ends the connection after h2_pull has returned
 * the remaining output. */
MUST_USE int h2_feed(struct h2 *h, const uint8_t *bytes, size_t n);
/* Fills `out` and sets ret_more when not everything fits. If `gather` is given, large parts go
 * into the gather list instead; call h2_sent when they are sent or copied. The `cap` bytes of
 * `out` are followed by `beyond` bytes for gather parts only. A frame of max_data_bytes must
 * fit into `cap` bytes, or with a gather list into `cap` + `beyond` bytes. A negative result
 * ends the connection. */
#define H2_HEAD_BYTES ((size_t)9)
MUST_USE ssize_t h2_pull(struct h2 *h, uint8_t *out, size_t cap, size_t beyond,
                         struct gather_list *gather, bool *ret_more);
void h2_sent(struct h2 *h);
/* Returns true when nothing more will be read or written. */
bool h2_is_done(const struct h2 *h);

/* Sends the response headers. With `end`, the stream ends after them. Fails with -ENOMEM. */
MUST_USE int h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n, bool end);
/* Ends the stream with these trailers after the remaining body. They must stay valid until
 * on_close. */
void h2_finish(struct h2_stream *s, const struct h2_header *trailers, size_t n);
/* Continues a stream that has something to send again. */
void h2_resume(struct h2_stream *s);
/* The user has consumed n bytes of the body, so the peer may send as many more. */
void h2_consume(struct h2_stream *s, size_t n);
/* Ends the stream now, without a status. h2_pull later calls on_close. */
void h2_reset(struct h2_stream *s);

/* Sends GOAWAY; h2_is_done becomes true when the open streams have ended. With `is_graceful`, h2
 * announces the shutdown first and serves requests that the peer sent before it saw the notice.
 * Without `is_graceful`, the peer must send such requests again elsewhere; GOAWAY names the last
 * stream that h2 accepted. */
void h2_drain(struct h2 *h, bool is_graceful);
void h2_ping(struct h2 *h);
