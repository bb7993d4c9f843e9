#include "clients/c/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "harness.h"

#define LARGE ((size_t)100 << 10) /* enough to be received where it stays */
#define MOST ((size_t)400 << 10)

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, WINDOW_UPDATE = 8 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, PADDED = 8 };

/* A client's connection, and a daemon played by hand: what it will say, written in pieces between the client's looks. */
struct talk {
    struct conn *conn;
    struct call call;
    int there;
    uint8_t said[MOST];
    size_t n, at;
};
static struct talk talk;

static void put(const void *bytes, size_t n) {
    CHECK(talk.n + n <= MOST);
    memcpy(talk.said + talk.n, bytes, n);
    talk.n += n;
}

static void put_head(size_t n, unsigned type, unsigned flags, unsigned id) {
    uint8_t head[9] = {
        (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags, 0, 0, 0,
        (uint8_t)id};
    put(head, sizeof head);
}

static uint8_t byte_at(size_t i) {
    return (uint8_t)(i * 7 + (i >> 8));
}

/* Bytes `from` to `to` of the body in which a message of n bytes follows the other. */
static void put_body(size_t n, size_t from, size_t to) {
    uint8_t prefix[5] = {0, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    for (size_t i = from; i < to; i++) {
        size_t at = i % (n + sizeof prefix);
        uint8_t byte = at < sizeof prefix ? prefix[at] : byte_at(at - sizeof prefix);
        put(&byte, 1);
    }
}

static void put_data(size_t n, size_t from, size_t to) {
    put_head(to - from, DATA, 0, 1);
    put_body(n, from, to);
}

static void put_padded(size_t n, size_t from, size_t to) {
    static const uint8_t zeros[255], length = sizeof zeros;
    put_head(1 + to - from + sizeof zeros, DATA, PADDED, 1);
    put(&length, 1);
    put_body(n, from, to);
    put(zeros, sizeof zeros);
}

static void put_end(void) {
    static const char status[] = "\0\13grpc-status\1"
                                 "0";
    put_head(sizeof status - 1, HEADERS, END_HEADERS | END_STREAM, 1);
    put(status, sizeof status - 1);
}

static void begin(void) {
    struct target target = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int room = (int)MOST;
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/berm-conn-%d", (int)getpid());
    snprintf(target.name, sizeof target.name, "%s", address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unlink(address.sun_path);
    CHECK_INT(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_INT(listen(listener, 1), 0);
    memset(&talk, 0, sizeof talk);
    CHECK_INT(conn_open(&talk.conn, &target), 0);
    talk.there = accept(listener, NULL, NULL);
    setsockopt(talk.there, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    unlink(address.sun_path);
    close(listener);
    CHECK_INT(call_begin(&talk.call, talk.conn, "/x", NULL, 0, 0), 0);
    put_head(0, SETTINGS, 0, 0);
    put_head(0, SETTINGS, ACK, 0); /* so that frames may be large */
    put_head(1, HEADERS, END_HEADERS, 1);
    put("\x88", 1); /* :status: 200 */
}

static void end(void) {
    call_done(&talk.call);
    conn_unref(talk.conn);
    close(talk.there);
}

/* Writes up to n bytes more, and takes what comes of them. */
static int step_of(struct call *k, size_t n, const uint8_t **ret_bytes, size_t *ret_n) {
    n = MIN(n, talk.n - talk.at);
    ssize_t sent = n > 0 ? send(talk.there, talk.said + talk.at, n, MSG_DONTWAIT) : 0;
    talk.at += sent > 0 ? (size_t)sent : 0;
    return call_next(k, clock_us() + 1, NULL, ret_bytes, ret_n);
}

static int step(size_t n, const uint8_t **ret_bytes, size_t *ret_n) {
    return step_of(&talk.call, n, ret_bytes, ret_n);
}

static bool is_as_put(const uint8_t *bytes, size_t n, size_t expected) {
    bool same = n == expected;
    for (size_t i = 0; same && i < n; i++)
        same = bytes[i] == byte_at(i);
    return same;
}

/* Hears everything out in such pieces; the number of messages, all as they were put. */
static unsigned hear(size_t n, size_t piece) {
    unsigned n_messages = 0;
    const uint8_t *bytes;
    size_t got;
    for (int r; (r = step(piece, &bytes, &got)) != 0;) {
        if (r == -ETIMEDOUT)
            continue;
        CHECK_INT(r, 1);
        if (r != 1)
            break;
        CHECK(is_as_put(bytes, got, n));
        n_messages++;
    }
    CHECK_INT(talk.call.grpc_status, 0);
    return n_messages;
}

static const size_t pieces[] = {1 << 20, 65536, 20011, 4099};

TEST(conn_messages_of_one_frame_each) {
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        begin();
        for (size_t at = 0; at < 3; at++)
            put_data(LARGE, at * (LARGE + 5), (at + 1) * (LARGE + 5));
        put_end();
        CHECK_INT(hear(LARGE, pieces[i]), 3);
        end();
    }
}

/* Frames that begin and end anywhere in a message, some with padding, and others between them. */
TEST(conn_messages_cut_into_frames) {
    for (size_t i = 0; i < COUNT_OF(pieces) * 8; i++) {
        size_t whole = 3 * (LARGE + 5), cut = LARGE / 2 + i % 8;
        begin();
        for (size_t at = 0, frame = 0; at < whole; at += cut, frame++) {
            (frame % 3 == 1 ? put_padded : put_data)(LARGE, at, MIN(at + cut, whole));
            if (frame % 2 == 0)
                put_head(0, SETTINGS, 0, 0);
        }
        put_end();
        CHECK_INT(hear(LARGE, pieces[i / 8]), 3);
        end();
    }
}

TEST(conn_many_messages_in_a_frame) {
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        begin();
        put_data(10000, 0, 10 * 10005);
        put_end();
        CHECK_INT(hear(10000, pieces[i]), 10);
        end();
    }
}

/* A call that is let go of in the midst of a frame; its rest is nobody's, and what follows is another's. */
TEST(conn_a_call_that_goes_in_the_midst_of_a_frame) {
    const uint8_t *bytes;
    size_t n;
    begin();
    put_data(LARGE, 0, LARGE + 5);
    CHECK_INT(step(LARGE / 2, &bytes, &n), -ETIMEDOUT);
    CHECK_INT(step(LARGE / 8, &bytes, &n), -ETIMEDOUT);
    call_done(&talk.call);
    memset(&talk.call, 0xff, sizeof talk.call); /* nobody looks at it any more */
    talk.at += (size_t)send(talk.there, talk.said + talk.at, talk.n - talk.at, MSG_DONTWAIT);
    CHECK(conn_is_usable(talk.conn)); /* takes the rest in */
    CHECK_INT(call_begin(&talk.call, talk.conn, "/y", NULL, 0, 0), 0);
    put_head(1, HEADERS, END_HEADERS, 3);
    put("\x88", 1);
    put_head(25, DATA, 0, 3);
    put_body(20, 0, 25);
    int r;
    while ((r = step(20011, &bytes, &n)) == -ETIMEDOUT)
        ;
    CHECK_INT(r, 1);
    CHECK_INT(n, 20);
    end();
}

/* Whoever has a message makes another call, and more of the first one comes with its answer. */
TEST(conn_a_message_that_is_lent_stays_where_it_is) {
    const uint8_t *lent, *bytes;
    size_t n_lent, n;
    int r;
    begin();
    put_data(LARGE, 0, LARGE + 5);
    while ((r = step(20011, &lent, &n_lent)) == -ETIMEDOUT)
        ;
    CHECK_INT(r, 1);
    struct call other;
    CHECK_INT(call_begin(&other, talk.conn, "/y", NULL, 0, 0), 0);
    put_data(LARGE, 0, LARGE + 5);
    put_head(1, HEADERS, END_HEADERS, 3);
    put("\x88", 1);
    put_head(25, DATA, 0, 3);
    put_body(20, 0, 25);
    while ((r = step_of(&other, 20011, &bytes, &n)) == -ETIMEDOUT)
        ;
    CHECK_INT(r, 1);
    CHECK_INT(n, 20);
    CHECK(is_as_put(lent, n_lent, LARGE));
    call_done(&other);
    put_end();
    CHECK_INT(hear(LARGE, 20011), 1);
    end();
}

/* The daemon ends the call in the midst of a message. */
TEST(conn_a_call_that_is_reset_in_the_midst_of_a_message) {
    const uint8_t *bytes;
    size_t n;
    int r;
    begin();
    put_data(LARGE, 0, LARGE / 2);
    put_head(4, RST_STREAM, 0, 1);
    put("\0\0\0\10", 4);
    while ((r = step(20011, &bytes, &n)) == -ETIMEDOUT)
        ;
    CHECK_INT(r, 0);
    CHECK_INT(talk.call.grpc_status, -1);
    end();
}

TEST(conn_a_message_that_is_too_large_is_not_taken) {
    const uint8_t *bytes;
    size_t n;
    int r;
    begin();
    put_head(LARGE, DATA, 0, 1);
    put("\0\xff\xff\xff\xff", 5);
    put_body(LARGE, 5, LARGE);
    while ((r = step(4099, &bytes, &n)) == -ETIMEDOUT)
        ;
    CHECK_INT(r, -EPROTO);
    end();
}

/* What the daemon was sent, read frame by frame: what came on a stream, by type. */
struct heard {
    unsigned n_frames[16];
    size_t n_data;
};

static size_t drain(uint8_t *out, size_t cap) {
    size_t n = 0;
    for (ssize_t got; n < cap && (got = recv(talk.there, out + n, cap - n, MSG_DONTWAIT)) > 0;)
        n += (size_t)got;
    return n;
}

static struct heard heard_on(unsigned id, const uint8_t *at, size_t n) {
    struct heard h = {0};
    const uint8_t *end = at + n;
    while (end - at >= 9) {
        size_t length = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        if ((size_t)(end - at) < 9 + length || at[3] >= COUNT_OF(h.n_frames))
            break;
        if (at[8] == id) {
            h.n_frames[at[3]]++;
            h.n_data += at[3] == DATA ? length : 0;
        }
        at += 9 + length;
    }
    CHECK_INT(end - at, 0); /* frames and nothing else */
    return h;
}

/* A call that is let go of while one of its frames is half sent and the next one waits behind it. */
TEST(conn_a_call_that_goes_while_its_frames_wait) {
    static uint8_t body[4 << 20], sent[5 << 20];
    struct call *gone = malloc(sizeof *gone), next;
    const uint8_t *bytes;
    size_t n;
    begin();
    talk.n = 0;
    put_head(6, SETTINGS, 0, 0);
    put("\0\4\0\x7f\xff\xff", 6); /* INITIAL_WINDOW_SIZE; frames of 16 KiB */
    put_head(4, WINDOW_UPDATE, 0, 0);
    put("\0\x7f\0\0", 4);
    CHECK_INT(step(MOST, &bytes, &n), -ETIMEDOUT);
    CHECK(conn_is_usable(talk.conn)); /* takes it in */
    drain(sent, sizeof sent);         /* from here on there are frames alone */
    CHECK_INT(call_begin(gone, talk.conn, "/x", body, sizeof body, 0), 0);
    CHECK_INT(call_next(gone, clock_us() + 1, NULL, &bytes, &n), -ETIMEDOUT);
    CHECK(gone->n_lent > 0);
    call_done(gone);
    free(gone); /* nobody looks at it any more */
    n = drain(sent, sizeof sent);
    CHECK_INT(call_begin(&next, talk.conn, "/y", NULL, 0, 0), 0);
    for (size_t got = 1; got > 0; n += got) {
        CHECK_INT(call_next(&next, clock_us() + 1, NULL, &bytes, &got), -ETIMEDOUT);
        got = drain(sent + n, sizeof sent - n);
    }
    struct heard first = heard_on(3, sent, n), second = heard_on(5, sent, n);
    CHECK_INT(first.n_frames[RST_STREAM], 1);
    CHECK(first.n_data > 0 && first.n_data < sizeof body);
    CHECK_INT(second.n_frames[HEADERS], 1);
    call_done(&next);
    end();
}
