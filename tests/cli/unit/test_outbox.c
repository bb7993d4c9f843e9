#include "clients/c/outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

#define BODY ((size_t)1 << 20) /* more than a socket holds */
#define MOST (2 * BODY)

/* An outbox and both ends of its socket; what arrives is gathered. */
struct box {
    struct outbox out;
    int here, there;
    uint8_t got[MOST];
    size_t n;
};

static struct box box;
static uint8_t body[BODY];

static void open_box(size_t max_bytes) {
    int ends[2];
    box = (struct box){0};
    buf_init(&box.out.bytes, max_bytes);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    box.here = ends[0];
    box.there = ends[1];
    for (size_t i = 0; i < BODY; i++)
        body[i] = (uint8_t)(i * 7 + (i >> 9));
}

static void say(const char *text) {
    CHECK_INT(buf_append(&box.out.bytes, text, strlen(text)), 0);
}

static void gather(void) {
    for (ssize_t n; (n = recv(box.there, box.got + box.n, MOST - box.n, 0)) > 0;)
        box.n += (size_t)n;
}

static void send_all(void) {
    while (!outbox_is_empty(&box.out)) {
        ssize_t n = outbox_send(&box.out, box.here);
        CHECK(n > 0 || n == -EAGAIN);
        gather();
    }
}

static void close_box(void) {
    buf_done(&box.out.bytes);
    close(box.here);
    close(box.there);
}

static void check_came(const char *before, size_t n, const char *after) {
    size_t a = strlen(before), b = strlen(after);
    if (!CHECK(box.n == a + n + b))
        return;
    CHECK_BYTES(box.got, a, before, a);
    CHECK_BYTES(box.got + a, n, body, n);
    CHECK_BYTES(box.got + a + n, b, after, b);
}

TEST(outbox_sends_in_order_what_is_lent) {
    size_t owed = 0;
    open_box(4096);
    say("before ");
    outbox_lend(&box.out, (struct loan){.bytes = body, .n = BODY}, &owed);
    say(" after");
    CHECK_INT(owed, BODY);
    send_all();
    CHECK_INT(owed, 0);
    check_came("before ", BODY, " after");
    close_box();
}

/* A call that is given up while a frame of it is half out: the frame must still come whole, or whatever follows
 * it on the connection is not understood. */
TEST(outbox_keeps_the_rest_of_what_is_lent) {
    static const size_t sent_first[] = {0, 1, 6, 7, 8, 100000};
    for (size_t i = 0; i < COUNT_OF(sent_first); i++) {
        size_t owed = 0;
        open_box(BODY + 4096);
        int room = 4096;
        CHECK_INT(setsockopt(box.here, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
        say("before ");
        outbox_lend(&box.out, (struct loan){.bytes = body, .n = BODY}, &owed);
        while (box.n < sent_first[i]) {
            CHECK(outbox_send(&box.out, box.here) > 0);
            gather();
        }
        CHECK(i < 3 ||
              box.n > 7); /* the first ones went with nothing sent, the rest in the middle */
        say(" after");
        CHECK_INT(outbox_keep(&box.out), 0);
        CHECK_INT(owed, 0);
        uint8_t first = body[BODY - 1];
        body[BODY - 1] = (uint8_t)~first; /* the lender's again, and so not what is sent */
        say(", then more");
        send_all();
        body[BODY - 1] = first;
        check_came("before ", BODY, " after, then more");
        close_box();
    }
}

TEST(outbox_keeps_no_more_than_it_may) {
    size_t owed = 0;
    open_box(4096);
    say("before ");
    outbox_lend(&box.out, (struct loan){.bytes = body, .n = BODY}, &owed);
    CHECK_INT(outbox_keep(&box.out), -ENOBUFS);
    CHECK_INT(owed, 0); /* the lender goes all the same */
    outbox_clear(&box.out);
    CHECK(outbox_is_empty(&box.out));
    close_box();
}

TEST(outbox_forgets_what_is_lent) {
    size_t owed = 0;
    open_box(4096);
    say("before ");
    outbox_lend(&box.out, (struct loan){.bytes = body, .n = BODY}, &owed);
    outbox_clear(&box.out);
    CHECK_INT(owed, 0);
    CHECK(outbox_is_empty(&box.out));
    say("next");
    send_all();
    check_came("next", 0, "");
    close_box();
}

/* --- out of a pipe --- */

#define PIPED ((size_t)200000) /* more than the socket below takes at once */

/* The body's first bytes from memory and the others by a pipe, of which the end to write into is closed. */
static int lend_piped(size_t n_memory, size_t *owed) {
    int ends[2];
    CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, (int)PIPED) >= (int)PIPED);
    CHECK_INT(write(ends[1], body + n_memory, PIPED - n_memory), PIPED - n_memory);
    close(ends[1]);
    outbox_lend(&box.out, (struct loan){body, n_memory, ends[0], PIPED - n_memory}, owed);
    CHECK_INT(*owed, PIPED);
    return ends[0];
}

static void narrow(void) {
    int room = 4096;
    CHECK_INT(setsockopt(box.here, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
}

TEST(outbox_sends_in_order_what_a_pipe_holds) {
    static const size_t n_memory[] = {0, 1, 19, 100000};
    for (size_t i = 0; i < COUNT_OF(n_memory); i++) {
        size_t owed = 0;
        open_box(4096);
        narrow();
        if (i != 1) /* it may be the first of all */
            say("before ");
        int pipe = lend_piped(n_memory[i], &owed);
        say(" after");
        send_all();
        CHECK_INT(owed, 0);
        check_came(i != 1 ? "before " : "", PIPED, " after");
        close(pipe);
        close_box();
    }
}

TEST(outbox_keeps_the_rest_of_what_a_pipe_holds) {
    static const size_t sent_first[] = {0, 7, 8, 50000};
    for (size_t i = 0; i < COUNT_OF(sent_first); i++) {
        size_t owed = 0;
        open_box(BODY);
        narrow();
        say("before ");
        int pipe = lend_piped(19, &owed);
        while (box.n < sent_first[i]) {
            CHECK(outbox_send(&box.out, box.here) > 0);
            gather();
        }
        say(" after");
        CHECK_INT(outbox_keep(&box.out), 0);
        CHECK_INT(owed, 0);
        close(pipe);
        send_all();
        check_came("before ", PIPED, " after");
        close_box();
    }
}

TEST(outbox_notices_a_pipe_that_has_less) {
    for (int kept = 0; kept < 2; kept++) {
        size_t owed = 0;
        char taken[100];
        open_box(BODY);
        int pipe = lend_piped(0, &owed);
        CHECK_INT(read(pipe, taken, sizeof taken), sizeof taken);
        ssize_t n = 1;
        while (!kept && n > 0) {
            n = outbox_send(&box.out, box.here);
            gather();
        }
        CHECK_INT(kept ? outbox_keep(&box.out) : n, -EIO);
        close(pipe);
        outbox_clear(&box.out);
        close_box();
    }
}

/* To be killed by it would be the end of this program. */
TEST(outbox_raises_no_signal) {
    sigset_t pending;
    size_t owed = 0;
    open_box(4096);
    int pipe = lend_piped(0, &owed);
    close(box.there);
    void (*was)(int) = signal(SIGPIPE, SIG_DFL);
    CHECK_INT(outbox_send(&box.out, box.here), -EPIPE);
    CHECK_INT(sigpending(&pending), 0);
    CHECK_INT(sigismember(&pending, SIGPIPE), 0);
    signal(SIGPIPE, was);
    outbox_clear(&box.out);
    close(pipe);
    close_box();
}
