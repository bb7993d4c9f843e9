#include "loop/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

/* One end is a stream, the other a plain socket of the test. */
struct end {
    struct stream stream;
    struct stream_pool pool;
    uv_loop_t loop;
    int other;
    size_t got;
    unsigned drained, gone, closed;
    bool close_in_bytes, close_in_drained, close_in_gone;
};

static struct end *of(struct stream *s) {
    return container_of(s, struct end, stream);
}

static void on_bytes(struct stream *s, const uint8_t *bytes, size_t n) {
    (void)bytes;
    CHECK(!s->closing);
    of(s)->got += n;
    if (of(s)->close_in_bytes)
        stream_close(s);
}
static void on_drained(struct stream *s) {
    of(s)->drained++;
    if (of(s)->close_in_drained)
        stream_close(s);
}
static void on_gone(struct stream *s, int why) {
    CHECK(why < 0);
    of(s)->gone++;
    if (of(s)->close_in_gone)
        stream_close(s);
}
static void on_closed(struct stream *s) {
    of(s)->closed++;
}
static const struct stream_events events = {on_bytes, on_drained, on_gone, on_closed};

static void end_open(struct end *e) {
    int fds[2];
    memset(e, 0, sizeof *e);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    uv_loop_init(&e->loop);
    CHECK_INT(stream_pool_init(&e->pool), 0);
    CHECK_INT(stream_init_pipe(&e->stream, &e->loop, &e->pool, &events), 0);
    CHECK_INT(uv_pipe_open(&e->stream.uv.pipe, fds[0]), 0);
    CHECK_INT(stream_read_start(&e->stream), 0);
    e->other = fds[1];
}

static void end_close(struct end *e) {
    stream_close(&e->stream);
    stream_close(&e->stream); /* harmless when repeated */
    uv_run(&e->loop, UV_RUN_DEFAULT);
    CHECK_INT(e->closed, 1);
    CHECK_INT(uv_loop_close(&e->loop), 0);
    stream_pool_done(&e->pool);
    if (e->other >= 0)
        close(e->other);
}

static size_t drain_other(struct end *e) {
    static char sink[1 << 16];
    size_t total = 0;
    for (ssize_t n; (n = read(e->other, sink, sizeof sink)) > 0;)
        total += (size_t)n;
    return total;
}

static struct end end;
static struct gather_list none;

TEST(stream_reads_and_writes) {
    end_open(&end);
    CHECK_INT(write(end.other, "hello", 5), 5);
    uv_run(&end.loop, UV_RUN_NOWAIT);
    CHECK_INT(end.got, 5);
    memcpy(stream_block(&end.stream), "world!", 6);
    CHECK_INT(stream_send(&end.stream, 6, &none), 0);
    CHECK(!stream_is_busy(&end.stream));
    CHECK_INT(drain_other(&end), 6);
    CHECK(stream_block(&end.stream) != NULL);
    CHECK_INT(stream_send(&end.stream, 0, &none), 0); /* returned unused */
    end_close(&end);
}

/* If the peer does not read, one block is pending, and is sent when it reads. */
TEST(stream_holds_one_block_for_a_peer_that_does_not_read) { /* covers: RPC-16 */
    size_t sent = 0, received = 0;
    end_open(&end);
    while (!stream_is_busy(&end.stream)) {
        memset(stream_block(&end.stream), 'x', STREAM_BLOCK_BYTES);
        CHECK_INT(stream_send(&end.stream, STREAM_BLOCK_BYTES, &none), 0);
        sent += STREAM_BLOCK_BYTES;
    }
    uv_run(&end.loop, UV_RUN_NOWAIT);
    CHECK_INT(end.drained, 0);
    while (end.drained == 0) {
        received += drain_other(&end);
        uv_run(&end.loop, UV_RUN_NOWAIT);
    }
    received += drain_other(&end);
    CHECK_INT(received, sent);
    CHECK(!stream_is_busy(&end.stream));
    end_close(&end);
}

/* Block and gather parts arrive in order and complete, wherever the kernel splits them. */
TEST(stream_sends_gather_parts_without_copying) {
    static uint8_t bodies[GATHER_MAX][8000], got[STREAM_BLOCK_BYTES / 4];
    uint8_t next = 0, expected = 0;
    size_t cut = 0;
    int bytes = 32768; /* small, so that the kernel splits often */
    end_open(&end);
    uv_send_buffer_size(&end.stream.uv.handle, &bytes);
    for (unsigned turn = 0; turn < 600; turn++) {
        if (stream_is_busy(&end.stream)) {
            uv_run(&end.loop, UV_RUN_NOWAIT);
        } else {
            struct gather_list gather = {.n = 0};
            uint8_t *block = stream_block(&end.stream), *at = block;
            for (size_t i = 0; i < turn % (GATHER_MAX + 1); i++) {
                size_t n_head = 1 + (turn + i) % 40, n_body = 1 + (turn * 131 + i * 977) % 8000;
                for (size_t k = 0; k < n_head; k++)
                    *at++ = next++;
                for (size_t k = 0; k < n_body; k++)
                    bodies[i][k] = next++;
                gather.list[gather.n++] = (struct gather_part){at, bodies[i], n_body};
                memset(at, 0xff, n_body); /* the bytes under a gather part are not sent */
                at += n_body;
            }
            for (size_t k = 0; k < turn % 3; k++)
                *at++ = next++;
            CHECK_INT(stream_send(&end.stream, (size_t)(at - block), &gather), 0);
            CHECK_INT(gather.n, 0);
            /* the stream has copied what the kernel did not accept */
            memset(bodies, 0xff, sizeof bodies);
            cut += stream_is_busy(&end.stream);
        }
        bool same = true;
        ssize_t n_got = read(end.other, got, 1 + turn * 104729 % (sizeof got - 1));
        for (ssize_t i = 0; i < n_got; i++)
            same = same && got[i] == expected++;
        CHECK(same);
    }
    CHECK(cut > 10);
    end_close(&end);
}

TEST(stream_copies_all_parts_when_the_kernel_accepts_nothing) {
    static char got[1 << 20];
    size_t n = 0, filled = 0;
    end_open(&end);
    for (ssize_t r; (r = write(stream_fd(&end.stream), got, 4096)) > 0;)
        filled += (size_t)r;
    uint8_t *block = stream_block(&end.stream);
    struct gather_list gather = {{{block + 2, (const uint8_t *)"cde", 3}}, 1};
    memcpy(block, "ab...f", 6);
    CHECK_INT(stream_send(&end.stream, 6, &gather), 0);
    CHECK(stream_is_busy(&end.stream));
    while (n < filled + 6) {
        ssize_t r = read(end.other, got + n, sizeof got - n);
        n += r > 0 ? (size_t)r : 0;
        uv_run(&end.loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(memcmp(got + filled, "abcdef", 6), 0);
    end_close(&end);
}

TEST(stream_sends_nothing_after_it_broke) {
    signal(SIGPIPE, SIG_IGN); /* as in the daemon */
    end_open(&end);
    close(end.other);
    end.other = -1;
    uint8_t *block = stream_block(&end.stream);
    struct gather_list gather = {{{block + 3, (const uint8_t *)"123", 3}}, 1};
    CHECK_INT(stream_send(&end.stream, 6, &gather), UV_EPIPE);
    CHECK(!stream_is_busy(&end.stream));
    end_close(&end);
}

TEST(stream_may_be_closed_inside_every_callback) {
    end_open(&end);
    end.close_in_bytes = true;
    CHECK_INT(write(end.other, "x", 1), 1);
    uv_run(&end.loop, UV_RUN_NOWAIT);
    CHECK_INT(end.got, 1);
    end_close(&end);

    end_open(&end);
    end.close_in_gone = true;
    close(end.other);
    end.other = -1;
    uv_run(&end.loop, UV_RUN_NOWAIT);
    CHECK_INT(end.gone, 1);
    end_close(&end);

    end_open(&end);
    end.close_in_drained = true;
    while (!stream_is_busy(&end.stream)) {
        CHECK(stream_block(&end.stream) != NULL);
        CHECK_INT(stream_send(&end.stream, STREAM_BLOCK_BYTES, &none), 0);
    }
    while (end.drained == 0) {
        drain_other(&end);
        uv_run(&end.loop, UV_RUN_NOWAIT);
    }
    end_close(&end);

    end_open(&end); /* and with a pending write: only on_closed fires */
    while (!stream_is_busy(&end.stream)) {
        CHECK(stream_block(&end.stream) != NULL);
        CHECK_INT(stream_send(&end.stream, STREAM_BLOCK_BYTES, &none), 0);
    }
    end_close(&end);
    CHECK_INT(end.drained + end.gone, 0);
}
