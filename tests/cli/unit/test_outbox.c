#include "clients/c/outbox.h"

#include <errno.h>
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
    outbox_lend(&box.out, body, BODY, &owed);
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
        outbox_lend(&box.out, body, BODY, &owed);
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
    outbox_lend(&box.out, body, BODY, &owed);
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
    outbox_lend(&box.out, body, BODY, &owed);
    outbox_clear(&box.out);
    CHECK_INT(owed, 0);
    CHECK(outbox_is_empty(&box.out));
    say("next");
    send_all();
    check_came("next", 0, "");
    close_box();
}
