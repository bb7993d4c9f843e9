/* h2 — the server's side of one HTTP/2 connection, bytes in and bytes out; the only file that
 * includes nghttp2.
 *
 * Owner:   the connection.                Ends: h2_free; streams still open hear nothing then.
 * Streams: the user embeds a struct h2_stream in what on_open returns; it is the user's until
 *          on_close, which comes exactly once and last.
 * Sending: pull. h2_pull asks each stream that has something for its bytes when the socket has room.
 * Bounds:  header blocks over max_header_bytes are not stored, only flagged; frames that carry no
 *          work (pings, settings, resets, empty data) draw on a budget that useful frames refill,
 *          and a peer that empties it is sent away with ENHANCE_YOUR_CALM.
 * Inside a callback you may call anything here but h2_feed, h2_pull and h2_free. */
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
    size_t unconsumed_bytes; /* of the body, still counted against the peer's window */
    size_t promised_bytes;   /* of the response, in a frame that waits for room in the block */
    size_t lent_bytes;       /* of the response, given out and not forgotten before h2_sent */
    struct h2_stream *next_lender;
    const struct h2_header *trailers;
    size_t n_trailers;
    bool headers_too_large;
    bool request_ended; /* the peer sends no more */
    bool responded;
    bool finished; /* trailers are set or the response ended with its headers */
    bool waiting;  /* nothing was left to send; h2_resume wakes it */
};

struct h2_events {
    /* A request begins. NULL refuses it. */
    struct h2_stream *(*on_open)(void *user);
    void (*on_header)(struct h2_stream *s, struct str name, struct str value);
    void (*on_request)(struct h2_stream *s); /* all headers are in */
    void (*on_body)(struct h2_stream *s, const uint8_t *bytes, size_t n);
    void (*on_body_end)(struct h2_stream *s);
    /* Bytes of the response that can be sent now. */
    size_t (*on_body_left)(struct h2_stream *s);
    /* Where they lie, in one piece. */
    const uint8_t *(*on_body_at)(struct h2_stream *s);
    /* The first n of them were copied or sent, and are forgotten. Until then what on_body_left told of stays: the
     * stream's promised_bytes may not be taken back, and its lent_bytes may not even move. */
    void (*on_pulled)(struct h2_stream *s, size_t n);
    void (*on_close)(struct h2_stream *s);
};

struct h2_limits {
    uint32_t max_streams;
    uint32_t stream_window_bytes;
    uint32_t connection_window_bytes;
    uint32_t max_header_bytes;
    uint32_t max_data_bytes; /* of a frame that we send, where the peer takes as much */
};

MUST_USE int h2_new(struct h2 **ret_h2, const struct h2_events *events,
                    const struct h2_limits *limits, void *user);
void h2_free(struct h2 *h);

/* Bytes from the peer. Negative: the connection is over once h2_pull has given what is left. */
MUST_USE int h2_feed(struct h2 *h, const uint8_t *bytes, size_t n);
/* Fills `out` and says whether there is more than fits. What is large becomes a hole, if `holes` is given: h2_sent
 * comes next then, when they are sent or filled. Behind `cap` are `beyond` bytes for them alone. A frame of
 * max_data_bytes fits into `cap`, or with holes into both. Negative: the connection is over. */
#define H2_HEAD_BYTES ((size_t)9)
MUST_USE ssize_t h2_pull(struct h2 *h, uint8_t *out, size_t cap, size_t beyond,
                         struct gather_list *holes, bool *ret_more);
void h2_sent(struct h2 *h);
/* Nothing will ever be read or written again. */
bool h2_is_done(const struct h2 *h);

/* The response's headers; `end` closes the stream with them. -ENOMEM. */
MUST_USE int h2_respond(struct h2_stream *s, const struct h2_header *headers, size_t n, bool end);
/* After what on_body_left still tells of, the stream ends with these, which must live until on_close. */
void h2_finish(struct h2_stream *s, const struct h2_header *trailers, size_t n);
/* There is something to send again. */
void h2_resume(struct h2_stream *s);
/* n bytes of the body are used up; the peer may send as many more. */
void h2_consume(struct h2_stream *s, size_t n);
/* Ends the stream now, without a status. on_close follows from h2_pull. */
void h2_reset(struct h2_stream *s);

/* Says goodbye: h2_is_done once the open streams have ended. `is_graceful` asks the peer first, and takes
 * what it sent before it heard; otherwise such a request is left untouched, for the peer to send again
 * elsewhere, as the goodbye tells it which was the last one taken. */
void h2_drain(struct h2 *h, bool is_graceful);
void h2_ping(struct h2 *h);
