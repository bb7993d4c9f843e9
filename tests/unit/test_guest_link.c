#include "core/guest/guest_link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "unit/guest_peer.h"

static struct peer peer;

TEST(guest_link_reads_all_pages_of_a_hello) {
    char line[1024];
    size_t n_fds;
    peer_open(&peer);
    CHECK(recv(peer.fd, line, sizeof line, MSG_PEEK) > 0); /* sent without a loop iteration */
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(line,
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":{\"versions\":[1],"
              "\"daemon\":\"" BERM_VERSION "\",\"run_id\":\"r1\",\"lease_ms\":5000,"
              "\"sandbox_id\":\"demo\",\"incarnation\":3}}\n");
    peer_says(&peer,
              RESULT(1, "\"version\":1,\"guest\":\"x\",\"fd_passing\":false,\"capabilities\":"
                        "[\"terminal\"],\"execs\":[{\"exec_id\":\"ex-a\"},{\"exec_id\":\"b\"}],"
                        "\"more\":true"));
    CHECK_LOG(&peer, "exec:ex-a exec:b ");
    peer_hears(&peer, line, sizeof line, NULL, &n_fds);
    CHECK_STR(
        line,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"status\",\"params\":{\"after\":\"b\"}}\n");
    peer_says(&peer, "{\"jsonrpc\":\"2.0\",\"method\":\"grew\",\"params\":{\"exec_id\":\"b\"}}\n");
    peer_says(&peer, RESULT(2, "\"execs\":[{\"exec_id\":\"c\"}]"));
    CHECK_LOG(&peer, "notice:grew exec:c ready ");
    CHECK(guest_link_has(peer.link, "terminal"));
    CHECK(!guest_link_has(peer.link, "term"));
    CHECK(!guest_link_has(peer.link, ""));
    CHECK(!guest_link_passes_fds(peer.link));
    int fd = peer.fd; /* any descriptor */
    peer_ask(&peer, 0, "exec", &fd, 1);
    CHECK_LOG(&peer, "r0=UNSUPPORTED ");
    peer_close(&peer);
}

static void refused_hello(const char *answer, const char *log) {
    peer_open(&peer);
    peer_says(&peer, answer);
    CHECK_LOG(&peer, log);
    peer_close(&peer);
}

#define HELLO_OK "\"version\":1,\"guest\":\"x\",\"fd_passing\":true"

TEST(guest_link_refuses_an_invalid_hello) {
    static const char *const broken[] = {
        RESULT(1, "\"fd_passing\":true,\"execs\":[]"),
        RESULT(1, "\"version\":2,\"fd_passing\":true,\"execs\":[]"),
        RESULT(1, "\"version\":\"1\",\"fd_passing\":true,\"execs\":[]"),
        RESULT(1, "\"version\":1,\"execs\":[]"),
        RESULT(1, "\"version\":1,\"fd_passing\":1,\"execs\":[]"),
        RESULT(1, HELLO_OK),
        RESULT(1, HELLO_OK ",\"execs\":{}"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"more\":true"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"more\":1"),
        RESULT(1, HELLO_OK ",\"execs\":[7]"),
        RESULT(1, HELLO_OK ",\"execs\":[{}]"),
        RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"\"}]"),
        RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"-a\"}]"),
        RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"../a\"}]"),
        RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"a\\u0000\"}]"),
        RESULT(1, HELLO_OK
               ",\"execs\":[{\"exec_id\":\"a23456789012345678901234567890123456789012345678x\"}]"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"capabilities\":7"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"capabilities\":[\"\"]"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"capabilities\":[7]"),
        RESULT(1, HELLO_OK ",\"execs\":[],\"fds\":1"),
        RESULT(2, HELLO_OK ",\"execs\":[]"),
        "{\"jsonrpc\":\"2.0\",\"method\":\"grew\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":14,\"message\":\"no\",\"data\":{}}}\n",
    };
    for (size_t i = 0; i < COUNT_OF(broken); i++)
        refused_hello(broken[i], "lost:GUEST_PROTOCOL ");
    refused_hello("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":120,\"message\":\"I speak 9\","
                  "\"data\":{\"code\":\"GUEST_VERSION\"}}}\n",
                  "lost:GUEST_VERSION ");
    CHECK_STR(peer.last.text, "hello: I speak 9");
}

TEST(guest_link_bounds_the_pages_and_the_time_of_a_hello) {
    peer_open(&peer);
    peer_says(&peer, RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"a\"}],\"more\":true"));
    char text[128], line[256];
    size_t n_fds;
    for (int id = 2; id < 40 && !strstr(peer.log, "lost"); id++) {
        snprintf(text, sizeof text,
                 "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"execs\":[{\"exec_id\":\"a\"}],"
                 "\"more\":true}}\n",
                 id);
        peer_hears(&peer, line, sizeof line, NULL, &n_fds);
        peer_says(&peer, text);
        peer_until(&peer, NULL);
    }
    CHECK(strstr(peer.log, "a lost:GUEST_PROTOCOL ") != NULL);
    peer_close(&peer);

    peer_open(&peer);
    CHECK_LOG(&peer, "");
    /* simulates that ten seconds pass */
    deadline_set(&peer.deadlines, peer.deadlines.first, clock_us());
    CHECK_LOG(&peer, "lost:GUEST_LOST ");
    peer_close(&peer);
}

/* Splits the stream at every byte, and into single bytes; the events stay the same. */
TEST(guest_link_reads_a_stream_in_pieces) {
    static const char stream[] = RESULT(
        1, HELLO_OK
        ",\"execs\":[{\"exec_id\":\"ex-1\"}]") "\r\n {\"jsonrpc\":\"2.0\",\"method\":\"grew\",\"params\":{\"exec_id\":\"ex-1\"}}\n"
                                               "Content-Length: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}"
                                               "{\"jsonrpc\":\"2.0\",\"method\":\"exited\",\"params\":{\"exec_id\":\"ex-1\"}}\n" RESULT(
                                                   2, "\"x\":[1,2]") "nonsense\n";
    static const char want[] = "exec:ex-1 ready notice:grew r1=ok notice:exited r0=ok "
                               "r2=GUEST_PROTOCOL lost:GUEST_PROTOCOL ";
    for (size_t cut = 0; cut < sizeof stream; cut++) {
        peer_open(&peer);
        for (size_t slot = 0; slot < 3; slot++)
            peer_ask(&peer, slot, "ping", NULL, 0);
        for (size_t i = 0; cut == 0 && i < sizeof stream - 1; i++) {
            peer_says_bytes(&peer, stream + i, 1, NULL, 0);
            uv_run(&peer.loop, UV_RUN_NOWAIT);
        }
        if (cut > 0) {
            peer_says_bytes(&peer, stream, cut, NULL, 0);
            uv_run(&peer.loop, UV_RUN_NOWAIT);
            peer_says_bytes(&peer, stream + cut, sizeof stream - 1 - cut, NULL, 0);
        }
        CHECK_LOG(&peer, want);
        peer_close(&peer);
    }
}

TEST(guest_link_disconnects_a_guest_that_violates_the_protocol) {
    static const char *const broken[] = {
        "garbage\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}\n",
        "[]\n",
        "{}\n",
        "[{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]\n",
        "{\"jsonrpc\":\"1.0\",\"id\":2,\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":7}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{},\"error\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"result\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"exec\",\"params\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":\"6\",\"message\":\"\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":14,\"message\":\"what?\"}}\n",
        "Content-Length: 99999999\r\n\r\n",
        "Content-Type: none\r\n\r\n{}",
        "Colon\n",
        RESULT(1, ""),
        RESULT(3, ""),
        RESULT(9007199254740991, ""),
        RESULT(2, "\"fds\":1"),
        RESULT(2, "\"fds\":-1"),
        RESULT(2, "\"fds\":9"),
        RESULT(2, "\"fds\":\"1\""),
    };
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        peer_greet(&peer);
        peer_ask(&peer, 0, "ping", NULL, 0);
        peer_says(&peer, broken[i]);
        CHECK_LOG(&peer, "r0=GUEST_PROTOCOL lost:GUEST_PROTOCOL ");
        peer_close(&peer);
    }
    peer_greet(&peer);
    peer_ask(&peer, 0, "ping", NULL, 0);
    peer_says(&peer, RESULT(2, "") RESULT(2, ""));
    CHECK_LOG(&peer, "r0=ok lost:GUEST_PROTOCOL ");
    peer_close(&peer);
}

/* More than a megabyte without an end, and a message nested too deeply: both disconnect and are not
 * buffered. */
TEST(guest_link_bounds_what_it_reads) {
    static char flood[1 << 16];
    memset(flood, '[', sizeof flood);
    peer_greet(&peer);
    for (int i = 0; i < 32 && !strstr(peer.log, "lost"); i++) {
        peer_says_bytes(&peer, flood, sizeof flood, NULL, 0);
        peer_until(&peer, NULL);
    }
    CHECK_LOG(&peer, "lost:GUEST_PROTOCOL ");
    peer_close(&peer);
    flood[100] = '\n';
    peer_greet(&peer);
    peer_says_bytes(&peer, flood, 101, NULL, 0);
    CHECK_LOG(&peer, "lost:GUEST_PROTOCOL ");
    peer_close(&peer);
}

TEST(guest_link_reads_errors) {
    peer_greet(&peer);
    struct request *r = peer_ask(&peer, 0, "stdin", NULL, 0);
    peer_says(&peer,
              "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":71,\"message\":\"a \\\"hole\\\"\","
              "\"data\":{\"code\":\"STDIN_OFFSET\",\"errno\":5,\"field\":\"offset\","
              "\"next_offset\":4096}}}\n");
    CHECK_LOG(&peer, "r0=STDIN_OFFSET ");
    CHECK_STR(peer.last.text, "a \"hole\"");
    CHECK_STR(peer.last.field, "offset");
    CHECK_INT(peer.last.sys, 5);
    CHECK_INT(r->next_offset, 4096);
    static const char *const odd[] = {"0", "-1", "999", "1000", "9000000000000"};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        char text[2048], field[1001];
        memset(field, 'f', 1000);
        field[1000] = '\0';
        r = peer_ask(&peer, 0, "ping", NULL, 0);
        snprintf(
            text, sizeof text,
            "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"error\":{\"code\":%s,\"message\":\"%s\",\"data\":"
            "{\"field\":\"%s\",\"errno\":-1,\"next_offset\":-7}}}\n",
            3 + i, odd[i], field, "no\\u0000thing");
        peer_says(&peer, text);
        CHECK_LOG(&peer, "r0=GUEST_PROTOCOL ");
        CHECK_INT(r->next_offset, -1);
        CHECK_INT(strlen(peer.last.text), sizeof peer.last.text - 1);
        CHECK_STR(peer.last.field, "");
    }
    peer_close(&peer);
}

TEST(guest_link_reports_a_lost_guest) {
    peer_greet(&peer);
    peer_ask(&peer, 0, "ping", NULL, 0);
    peer_ask(&peer, 1, "ping", NULL, 0);
    close(TAKE_FD(peer.fd));
    CHECK_LOG(&peer, "r0=GUEST_LOST r1=GUEST_LOST lost:GUEST_LOST ");
    peer_ask(&peer, 0, "ping", NULL, 0); /* every request gets a result */
    CHECK_LOG(&peer, "r0=GUEST_LOST ");
    peer_ask_nobody(&peer, "ping");
    CHECK_LOG(&peer, "");
    peer_close(&peer);

    /* A loss detected while sending is never reported inside the call. */
    peer_greet(&peer);
    peer.asks_in_callbacks = true;
    close(TAKE_FD(peer.fd));
    peer_ask(&peer, 0, "ping", NULL, 0);
    CHECK(guest_wait_is_on(&peer.requests[0].wait));
    CHECK_STR(peer.log, "");
    CHECK_LOG(&peer, "r0=GUEST_LOST r0=GUEST_LOST lost:GUEST_LOST ");
    peer_close(&peer);
}

TEST(guest_link_calls_nobody_after_close) {
    peer_greet(&peer);
    struct request *sent = peer_ask(&peer, 0, "ping", NULL, 0);
    for (size_t i = 1; i <= GUEST_WAITING_MAX; i++)
        peer_ask(&peer, i, "ping", NULL, 0);
    guest_link_close(TAKE(peer.link));
    CHECK(!guest_wait_is_on(&sent->wait));
    CHECK(!guest_wait_is_on(&peer.requests[GUEST_WAITING_MAX].wait)); /* it was refused */
    peer_says(&peer, RESULT(2, ""));
    CHECK_LOG(&peer, "");
    peer_close(&peer);
}

TEST(guest_link_may_be_closed_inside_every_callback) {
    static const char *const words[] = {"exec:a",
                                        "exec:b",
                                        "ready",
                                        "notice:grew",
                                        "r0=ok",
                                        "r1=GUEST_PROTOCOL",
                                        "lost:GUEST_PROTOCOL"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        peer_open(&peer);
        peer.close_at = words[i];
        for (size_t slot = 0; slot < 3; slot++)
            peer_ask(&peer, slot, "ping", NULL, 0);
        peer_says(
            &peer,
            RESULT(1, HELLO_OK ",\"execs\":[{\"exec_id\":\"a\"},{\"exec_id\":\"b\"}]") "{\"jsonrpc\":\"2.0\",\"method\":\"grew\",\"params\":{\"exec_id\":\"a\"}}\n" RESULT(
                2, "") "bad\n");
        peer_until(&peer, words[i]);
        peer_until(&peer, NULL);
        CHECK(!peer.link);
        size_t n = strlen(peer.log), word = strlen(words[i]);
        /* the last event */
        CHECK(n > word && memcmp(peer.log + n - word - 1, words[i], word) == 0);
        peer_close(&peer);
    }
    /* Also in the callback of a request that was never sent. */
    peer_greet(&peer);
    peer.close_at = "r256=LIMIT_REACHED";
    for (size_t slot = 0; slot < GUEST_WAITING_MAX + 3; slot++)
        peer_ask(&peer, slot, "ping", NULL, 0);
    CHECK_LOG(&peer, "r256=LIMIT_REACHED ");
    CHECK(!guest_wait_is_on(&peer.requests[257].wait));
    peer_close(&peer);
}
