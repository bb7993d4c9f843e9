#include "base/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

/* Returns what is written for one line, then sets the log back to stderr. */
static const char *logged(char *out, size_t cap, const char *key, struct str value) {
    int fd = memfd_create("log", 0);
    struct log_line l;
    log_setup(fd, LOG_INFO);
    if (log_begin(&l, LOG_INFO, "m")) {
        log_str(&l, key, value);
        log_end(&l);
    }
    log_flush();
    ssize_t n = pread(fd, out, cap - 1, 0);
    out[n > 0 ? n : 0] = '\0';
    close(fd);
    log_setup(STDERR_FILENO, LOG_INFO);
    const char *rest = strstr(out, " level=");
    return rest ? rest : out;
}

TEST(log_lines_are_key_value) {
    char out[4096];
    CHECK_STR(logged(out, sizeof out, "k", STR("v")), " level=info msg=m k=v\n");
    CHECK_INT(out[4] == '-' && out[10] == 'T' && out[23] == 'Z', 1);
}

TEST(log_values_cannot_forge_a_line) {
    char out[4096];
    CHECK_STR(logged(out, sizeof out, "k", STR("a b\n\"\\=\x01\x7f")),
              " level=info msg=m k=\"a b\\x0a\\\"\\\\=\\x01\\x7f\"\n");
    CHECK_STR(logged(out, sizeof out, "k", STR("")), " level=info msg=m k=\"\"\n");
    CHECK_STR(logged(out, sizeof out, "k", STR("\xc3\xa9")), " level=info msg=m k=\"\xc3\xa9\"\n");
    CHECK_STR(logged(out, sizeof out, "k", STR("\xff")), " level=info msg=m k=\"\\xff\"\n");
    CHECK_STR(logged(out, sizeof out, "k", STR("\xc2\x9b\xc2\xa0")),
              " level=info msg=m k=\"\\xc2\\x9b\xc2\xa0\"\n");
}

TEST(log_truncates_long_values_and_lines) {
    char out[8192], value[4000];
    struct log_line l;
    memset(value, 'x', sizeof value);
    CHECK_INT(strlen(logged(out, sizeof out, "k", (struct str){value, sizeof value})),
              strlen(" level=info msg=m k=\n") + 512);
    memset(value, 0xff, sizeof value);
    CHECK(strlen(logged(out, sizeof out, "k", (struct str){value, sizeof value})) < 560);
    memset(value, 'x', sizeof value);
    int fd = memfd_create("log", 0);
    log_setup(fd, LOG_INFO);
    if (log_begin(&l, LOG_INFO, "m")) {
        for (int i = 0; i < 20; i++)
            log_str(&l, "k", (struct str){value, sizeof value});
        log_end(&l);
    }
    log_flush();
    CHECK_INT(lseek(fd, 0, SEEK_END), 2048);
    close(fd);
    log_setup(STDERR_FILENO, LOG_INFO);
}

TEST(log_filters_by_level_and_flushes_warnings) {
    int fd = memfd_create("log", 0);
    log_setup(fd, LOG_WARN);
    CHECK(!log_is_on(LOG_INFO) && log_is_on(LOG_ERROR));
    log_text(LOG_INFO, "quiet", "not there");
    log_text(LOG_ERROR, "loud", "at %s", "once");
    CHECK(lseek(fd, 0, SEEK_END) > 0); /* without an explicit flush */
    log_setup(STDERR_FILENO, LOG_INFO);
    close(fd);
}

TEST(log_never_blocks_on_a_reader_that_stalls) {
    int pipes[2];
    char out[1 << 17];
    CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);
    log_setup(pipes[1], LOG_INFO);
    for (int i = 0; i < 5000; i++) /* far more than the pipe and the buffer can hold */
        log_text(LOG_ERROR, "flood", "%d and some more text to fill the pipe sooner", i);
    ssize_t n = read(pipes[0], out, sizeof out);
    CHECK(n > 0);
    log_flush();
    log_text(LOG_ERROR, "after", "x");
    while (n > 0 && !memmem(out, (size_t)n, "dropped_lines=", 14)) {
        log_flush();
        n = read(pipes[0], out, sizeof out);
        if (n > 0 && memmem(out, (size_t)n, "msg=after", 9))
            break;
    }
    CHECK(n > 0 && memmem(out, (size_t)n, "dropped_lines=", 14) != NULL);
    log_setup(STDERR_FILENO, LOG_INFO);
    close(pipes[0]);
    close(pipes[1]);
    log_flush();
}
