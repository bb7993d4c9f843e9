/* Tests the bounds of the link and descriptors in both directions. */
#include "core/guest/guest_stream.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "unit/guest_peer.h"

static struct peer peer;

static int file_with(const char *text) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void check_file(int fd, const char *text) {
    char got[32] = "";
    CHECK(pread(fd, got, sizeof got - 1, 0) >= 0);
    CHECK_STR(got, text);
}

TEST(guest_link_accepts_files_and_pipes) {
    size_t before = open_fds();
    peer_greet(&peer);
    int fds[3] = {file_with("hello")};
    CHECK_INT(pipe2(fds + 1, O_CLOEXEC), 0);
    struct request *r = peer_ask(&peer, 0, "read", NULL, 0);
    r->keeps = true;
    static const char answer[] = RESULT(2, "\"fds\":3");
    peer_says_bytes(&peer, answer, sizeof answer - 1, fds, 3);
    CHECK_LOG(&peer, "r0=ok ");
    CHECK(r->kept_fd >= 0);
    CHECK(fcntl(r->kept_fd, F_GETFD) & FD_CLOEXEC);
    check_file(r->kept_fd, "hello");
    close(r->kept_fd);

    r = peer_ask(&peer, 0, "read", NULL, 0);
    guest_wait_cancel(&r->wait);
    guest_wait_cancel(&r->wait);
    static const char unwanted[] = RESULT(3, "\"fds\":1");
    peer_says_bytes(&peer, unwanted, sizeof unwanted - 1, fds, 1);
    peer_ask(&peer, 1, "ping", NULL, 0);
    peer_says(&peer, RESULT(4, ""));
    CHECK_LOG(&peer, "r1=ok ");
    fd_close_all(fds, 3);
    peer_close(&peer);
    CHECK_INT(open_fds(), before); /* descriptors that nobody kept are closed */
}

static void refuses(int fd, const char *answer, size_t n_fds) {
    int fds[8];
    for (size_t i = 0; i < n_fds; i++)
        fds[i] = fd;
    peer_greet(&peer);
    peer_ask(&peer, 0, "read", NULL, 0);
    peer_says_bytes(&peer, answer, strlen(answer), fds, n_fds);
    CHECK_LOG(&peer, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
    peer_close(&peer);
}

TEST(guest_link_refuses_other_descriptors) {
    size_t before = open_fds();
    const struct {
        const char *path;
        int flags;
    } kinds[] = {{"/", O_RDONLY | O_DIRECTORY}, {"/dev/null", O_RDWR}, {"/etc/passwd", O_PATH}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int fd = open(kinds[i].path, kinds[i].flags | O_CLOEXEC);
        refuses(fd, RESULT(2, "\"fds\":1"), 1);
        close(fd);
    }
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    refuses(sock, RESULT(2, "\"fds\":1"), 1);
    close(sock);
    int file = file_with("");
    refuses(file, RESULT(2, ""), 1);          /* not announced */
    refuses(file, RESULT(2, "\"fds\":2"), 1); /* too few */
    refuses(file, RESULT(2, "\"fds\":1"), 2); /* too many */
    refuses(file, "{\"jsonrpc\":\"2.0\",\"method\":\"grew\",\"params\":{\"fds\":1}}\n", 1);
    refuses(file, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":6,\"message\":\"\"}}\n", 1);
    /* A guest that announced no descriptor passing. */
    peer_open(&peer);
    peer_says(&peer, RESULT(1, "\"version\":1,\"fd_passing\":false,\"execs\":[]"));
    CHECK_LOG(&peer, "ready ");
    peer_ask(&peer, 0, "read", NULL, 0);
    static const char answer[] = RESULT(2, "\"fds\":1");
    peer_says_bytes(&peer, answer, sizeof answer - 1, &file, 1);
    CHECK_LOG(&peer, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
    peer_close(&peer);
    close(file);
    CHECK_INT(open_fds(), before);
}

/* Descriptors without a message must not accumulate. */
TEST(guest_link_bounds_queued_descriptors) {
    size_t before = open_fds();
    int fds[8];
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = file_with("");
    peer_greet(&peer);
    for (int i = 0; i < 9; i++)
        peer_says_bytes(&peer, "{", 1, fds, 8);
    CHECK_LOG(&peer, "lost:GUEST_PROTOCOL ");
    fd_close_all(fds, 8);
    peer_close(&peer);
    CHECK_INT(open_fds(), before);
}

/* When the guest does not read, descriptors are queued as copies and arrive with their messages. */
TEST(guest_link_keeps_descriptors_until_they_can_be_sent) {
    enum { N = 120 };
    static char line[65536];
    static char padding[4000];
    size_t before = open_fds();
    char name[16];
    memset(padding, 'x', sizeof padding);
    peer_greet(&peer);
    for (size_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "file %zu", i);
        int fd = i % 3 == 2 ? -1 : file_with(name);
        struct json_out *o = guest_link_ask(peer.link, "exec");
        json_put_str(o, "name", str_of(name));
        json_put_str(o, "padding", (struct str){padding, sizeof padding});
        guest_link_send(peer.link, &fd, fd >= 0, NULL);
        if (fd >= 0)
            close(fd);
    }
    CHECK(open_fds() > before + 10); /* some are queued */
    for (size_t i = 0; i < N; i++) {
        int fds[GUEST_FDS_MAX];
        size_t n_fds;
        snprintf(name, sizeof name, "\"file %zu\"", i);
        peer_hears(&peer, line, sizeof line, fds, &n_fds);
        CHECK(strstr(line, name) != NULL);
        CHECK_INT(strstr(line, "\"fds\":1}}\n") != NULL, i % 3 != 2);
        CHECK_INT(n_fds, i % 3 != 2);
        if (n_fds == 1) {
            name[strlen(name) - 1] = '\0';
            check_file(fds[0], name + 1);
            close(fds[0]);
        }
    }
    CHECK_STR(peer.log, "");
    /* Closing the link closes the queued ones. */
    for (size_t i = 0; i < N; i++) {
        int fd = file_with("");
        struct json_out *o = guest_link_ask(peer.link, "exec");
        json_put_str(o, "padding", (struct str){padding, sizeof padding});
        guest_link_send(peer.link, &fd, 1, NULL);
        close(fd);
    }
    peer_close(&peer);
    CHECK_INT(open_fds(), before);
}

/* Without a free descriptor for the copy, the request is refused and the stream stays intact. */
TEST(guest_link_refuses_what_it_cannot_keep) {
    static char padding[400000], line[500000];
    size_t n_fds;
    struct rlimit limit, none;
    struct json_out *o;
    memset(padding, 'x', sizeof padding);
    peer_greet(&peer);
    struct request *r = peer_begin(&peer, 0, "stdin", &o);
    json_put_str(o, "padding", (struct str){padding, sizeof padding});
    peer_send(r, NULL, 0);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){0, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    peer_ask(&peer, 1, "exec", &peer.fd, 1);
    setrlimit(RLIMIT_NOFILE, &limit);
    peer_ask(&peer, 2, "ping", NULL, 0);
    CHECK_LOG(&peer, "r1=LIMIT_REACHED ");
    CHECK(peer_hears(&peer, line, sizeof line, NULL, &n_fds) > sizeof padding);
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(line,
              "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":{\"name\":\"r2\"}}\n");
    CHECK_INT(n_fds, 0);
    peer_close(&peer);
}

TEST(guest_link_bounds_bytes_that_the_guest_does_not_read) {
    static char padding[600000];
    memset(padding, 'y', sizeof padding);
    peer_greet(&peer);
    size_t sent = 0;
    for (; sent < 20 && !strstr(peer.log, "LIMIT"); sent++) {
        struct json_out *o;
        struct request *r = peer_begin(&peer, sent, "stdin", &o);
        json_put_str(o, "padding", (struct str){padding, sizeof padding});
        peer_send(r, NULL, 0);
        peer_until(&peer, NULL);
        usleep(1500); /* a timer reports refusals */
        peer_until(&peer, NULL);
    }
    CHECK(sent >= 6 && sent <= 9);
    CHECK(strstr(peer.log, "=LIMIT_REACHED") && !strstr(peer.log, "lost"));
    /* A message without a waiter must not get lost silently. */
    struct json_out *o = guest_link_ask(peer.link, "grant");
    json_put_str(o, "padding", (struct str){padding, sizeof padding});
    guest_link_send(peer.link, NULL, 0, NULL);
    CHECK(peer_until(&peer, "lost:GUEST_LOST"));
    peer_close(&peer);
}

TEST(guest_link_refuses_messages_that_are_too_large_or_not_utf8) {
    static char large[GUEST_MESSAGE_MAX];
    char line[256];
    size_t n_fds;
    memset(large, 'z', sizeof large);
    peer_greet(&peer);
    struct json_out *o;
    struct request *r = peer_begin(&peer, 0, "x", &o);
    json_put_str(o, "t", (struct str){large, sizeof large});
    peer_send(r, NULL, 0);
    CHECK_LOG(&peer, "r0=MESSAGE_TOO_LARGE ");
    r = peer_begin(&peer, 0, "x", &o);
    json_put_str(o, "t", STR("\xff"));
    peer_send(r, NULL, 0);
    CHECK_LOG(&peer, "r0=INVALID_ARGUMENT ");
    /* Their ids were not used, and nothing was sent. */
    peer_ask(&peer, 1, "ping", NULL, 0);
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(line,
              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\",\"params\":{\"name\":\"r1\"}}\n");
    peer_close(&peer);
}

static void answer(struct peer *p, size_t id) {
    char text[64];
    snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"result\":{}}\n", id);
    peer_says(p, text);
}

TEST(guest_link_supports_many_requests_in_flight) {
    char want[32];
    peer_greet(&peer);
    for (size_t i = 0; i < GUEST_WAITING_MAX; i++)
        peer_ask(&peer, i, "ping", NULL, 0);
    peer_ask(&peer, 256, "ping", NULL, 0);
    CHECK_LOG(&peer, "r256=LIMIT_REACHED ");
    guest_wait_cancel(&peer.requests[7].wait); /* the guest still has to answer */
    peer_ask(&peer, 257, "ping", NULL, 0);
    CHECK_LOG(&peer, "r257=LIMIT_REACHED ");
    peer_ask(&peer, 258, "ping", NULL, 0);
    guest_wait_cancel(&peer.requests[258].wait); /* refused, and nobody waits */
    for (size_t i = GUEST_WAITING_MAX; i-- > 0;) {
        answer(&peer, i + 2);
        snprintf(want, sizeof want, "r%zu=ok ", i);
        if (i != 7)
            CHECK_LOG(&peer, want);
    }
    peer_ask(&peer, 0, "ping", NULL, 0);
    answer(&peer, GUEST_WAITING_MAX + 2);
    CHECK_LOG(&peer, "r0=ok ");
    CHECK_LOG(&peer, "");
    peer_close(&peer);
}

/* Whichever allocation fails, the link works or is lost, and nothing leaks. */
TEST(guest_link_survives_memory_running_out) {
    for (unsigned n = 1; n < 60; n++) {
        size_t before = open_fds();
        int file = file_with("x");
        alloc_fail_at(n);
        peer_open(&peer);
        if (!peer.link) {
            alloc_fail_at(0);
            close(peer.fd);
            peer.fd = -1;
            close(file);
            peer_close(&peer);
            CHECK_INT(open_fds(), before);
            continue;
        }
        peer_ask(&peer, 0, "exec", &file, 1);
        peer_ask(&peer, 1, "ping", NULL, 0);
        peer_says(&peer, HELLO_ANSWER RESULT(2, "\"a\":\"\\u0041\"") RESULT(3, ""));
        usleep(1500);
        peer_until(&peer, NULL);
        bool failed = alloc_failed();
        alloc_fail_at(0);
        CHECK(strstr(peer.log, "lost") || strstr(peer.log, "ready r0="));
        CHECK(strstr(peer.log, "r0=") && strstr(peer.log, "r1="));
        close(file);
        peer_close(&peer);
        CHECK_INT(open_fds(), before);
        if (!failed)
            return;
    }
    CHECK(!"it never ran out of allocations");
}
