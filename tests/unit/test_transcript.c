#include "core/guest/transcript.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "unit/guest_peer.h"

static char dir[64];
static int dir_fd;
static char text[1 << 20];

static void begin(void) {
    snprintf(dir, sizeof dir, "/tmp/berm-transcript-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void end(void) {
    unlinkat(dir_fd, "guest.log", 0);
    close(dir_fd);
    CHECK_INT(rmdir(dir), 0); /* no other file was left */
}

static size_t read_log(void) {
    int fd = openat(dir_fd, "guest.log", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n] = '\0';
    return (size_t)n;
}

static void add(struct transcript *t, const char *message) {
    transcript_add(t, TRANSCRIPT_SENT, str_of(message), 0);
}

/* Returns the only line without time and direction. */
static const char *shown(const char *message) {
    struct transcript *t = transcript_open(dir_fd, "guest.log", 65536);
    unlinkat(dir_fd, "guest.log", 0);
    add(t, message);
    CHECK_INT(read_log(), 0); /* buffered, not written */
    transcript_close(t);
    size_t n = read_log();
    CHECK(n > 27 && text[n - 1] == '\n' && memcmp(text + 23, "Z > ", 4) == 0);
    text[n - 1] = '\0';
    return text + 27;
}

TEST(transcript_shows_messages_without_their_secrets) {
    begin();
    CHECK_STR(shown("{\"id\":4,\"params\":{\"argv\":[\"make\",\"-j4\"],\"env\":[{\"key\":\"TOKEN\","
                    "\"value\":\"s3cret\"}],\"n\":[1.5,-2,true,null,{}]}}"),
              "{\"id\":4,\"params\":{\"argv\":[\"make\",\"-j4\"],\"env\":[{\"key\":\"TOKEN\","
              "\"value\":\"<6 bytes>\"}],\"n\":[1.5,-2,true,null,{}]}}");
    CHECK_STR(shown("{\"env\":{\"A\":\"s3cret\",\"B\":[\"s3cret\"]},\"x\":\"y\"}"),
              "{\"env\":{\"A\":\"<6 bytes>\",\"B\":[\"<6 bytes>\"]},\"x\":\"y\"}");
    CHECK_STR(shown("{\"data_b64\":\"aGVsbG8K\",\"old_b64\":\"YQ==\",\"new_b64\":\"\"}"),
              "{\"data_b64\":\"<6 bytes>\",\"old_b64\":\"<1 bytes>\",\"new_b64\":\"<0 bytes>\"}");
    CHECK_STR(
        shown("{\"old_text\":\"a\",\"new_text\":\"bc\",\"matches\":[{\"text\":\"def\","
              "\"before\":[\"gh\"],\"after\":[\"i\"]}],\"after\":\"ex-1\"}"),
        "{\"old_text\":\"<1 bytes>\",\"new_text\":\"<2 bytes>\",\"matches\":[{\"text\":"
        "\"<3 bytes>\",\"before\":[\"<2 bytes>\"],\"after\":[\"<1 bytes>\"]}],\"after\":\"ex-1\"}");
    CHECK_STR(shown("{\"error\":{\"code\":5,\"data\":{\"field\":\"cwd\"}}}"),
              "{\"error\":{\"code\":5,\"data\":{\"field\":\"cwd\"}}}");
    CHECK_STR(shown("{\"a\\nb\":\"c\\nd\"}"), "{\"a\\nb\":\"c\\nd\"}");
    CHECK_STR(shown("s3cret, no JSON\n"), "<16 bytes>");
    CHECK_STR(shown(""), "<0 bytes>");
    end();
}

TEST(transcript_shows_the_size_of_long_values) {
    begin();
    static char message[40000];
    size_t n = (size_t)snprintf(message, sizeof message, "{\"argv\":[\"");
    memset(message + n, 'x', 2000);
    snprintf(message + n + 2000, 8, "\"]}");
    CHECK_STR(shown(message), "{\"argv\":[\"<2000 bytes>\"]}");
    n = (size_t)snprintf(message, sizeof message, "[0");
    while (n < 20000)
        n += (size_t)snprintf(message + n, sizeof message - n, ",12345678");
    snprintf(message + n, 8, "]");
    char want[32];
    snprintf(want, sizeof want, "<%zu bytes>", n + 1);
    CHECK_STR(shown(message), want);
    end();
}

/* Checks that every line is complete, that the newest is present, and that the file stays within
 * the bound. */
static void check_bound(int64_t max, int count) {
    begin();
    struct transcript *t = transcript_open(dir_fd, "guest.log", max);
    char message[64];
    for (int i = 0; i < count; i++) {
        snprintf(message, sizeof message, "{\"n\":%d}", i);
        add(t, message);
        if (i % 7 == 0) {
            transcript_flush(t);
            struct stat st = {0};
            fstatat(dir_fd, "guest.log", &st, 0);
            CHECK(st.st_size <= max);
        }
    }
    transcript_close(t);
    size_t n = read_log();
    CHECK(n <= (size_t)max && n + 64 > (size_t)max / 2 && text[n - 1] == '\n');
    int next = -1;
    for (char *line = text, *eol; (eol = strchr(line, '\n')); line = eol + 1) {
        int number = -1;
        CHECK_INT(sscanf(line, "20%*d-%*d-%*dT%*d:%*d:%*fZ > {\"n\":%d}", &number), 1);
        CHECK(next < 0 || number == next);
        next = number + 1;
    }
    CHECK_INT(next, count);
    end();
}

TEST(transcript_is_truncated_at_line_ends) {
    check_bound(4096, 1000);
    check_bound(65536, 5000);
    check_bound(100, 100); /* hardly more than one line */
}

TEST(transcript_write_errors_fail_nobody) {
    begin();
    close(dir_fd);
    struct transcript *t = transcript_open(dir_fd, "guest.log", 4096);
    for (int i = 0; i < 2000; i++)
        add(t, "{}");
    transcript_close(t);
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK_INT(read_log(), 0);
    for (unsigned n = 1; n < 30; n++) {
        alloc_fail_at(n);
        t = transcript_open(dir_fd, "guest.log", 4096);
        if (t) {
            add(t, "{\"a\":[1]}");
            transcript_close(t);
        }
        alloc_fail_at(0);
    }
    end();
}

TEST(transcript_records_a_link) {
    static struct peer peer;
    begin();
    peer.transcript = transcript_open(dir_fd, "guest.log", 65536);
    peer_greet(&peer);
    int fd = dup(dir_fd);
    struct json_out *o = guest_link_ask(peer.link, "stdin");
    json_put_str(o, "data_b64", STR("czNjcmV0"));
    guest_link_send(peer.link, &fd, 1, NULL);
    close(fd);
    peer_says(&peer, RESULT(2, "\"n\":1") "(not JSON: s3cret)\n");
    CHECK_LOG(&peer, "lost:GUEST_PROTOCOL ");
    read_log(); /* losing the link flushes it */
    CHECK(strstr(text, "Z > {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\"") != NULL);
    CHECK(strstr(text, "Z < {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"version\":1") != NULL);
    CHECK(strstr(text, "Z > +1 fds {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"stdin\",\"params\":"
                       "{\"data_b64\":\"<6 bytes>\",\"fds\":1}}\n") != NULL);
    CHECK(strstr(text, "Z < <18 bytes>\n") != NULL);
    CHECK(!strstr(text, "s3cret") && !strstr(text, "czNjcmV0"));
    peer_close(&peer);
    transcript_close(peer.transcript);
    end();
}
