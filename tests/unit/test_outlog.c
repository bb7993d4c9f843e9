#include "base/outlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <signal.h>

#include "harness.h"

static int new_file(void) {
    return memfd_create("log", MFD_CLOEXEC);
}

TEST(outlog_accepts_only_empty_writable_files) {
    struct outlog log;
    int pipes[2];
    CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);
    CHECK_INT(outlog_init(&log, pipes[1]), -EINVAL);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), dir = open("/", O_RDONLY | O_CLOEXEC);
    CHECK_INT(outlog_init(&log, null), -EINVAL);
    CHECK_INT(outlog_init(&log, dir), -EINVAL);
    int read_only = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_INT(outlog_init(&log, read_only), -EINVAL);
    int full = new_file();
    CHECK_INT(write(full, "x", 1), 1);
    CHECK_INT(outlog_init(&log, full), -EINVAL);
    int fds[] = {pipes[0], pipes[1], null, dir, read_only, full};
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        CHECK_INT(close(fds[i]), 0); /* the caller still owns them */
}

TEST(outlog_appends_regardless_of_the_file_offset) {
    struct outlog log;
    char got[8] = {0};
    int fd = new_file();
    CHECK_INT(outlog_init(&log, fd), 0);
    CHECK_INT(outlog_append(&log, "abc", 3), 3);
    lseek(fd, 0, SEEK_SET);
    CHECK_INT(outlog_append(&log, "def", 3), 3);
    CHECK_INT(pread(fd, got, sizeof got, 0), 6);
    CHECK_STR(got, "abcdef");
    CHECK_INT(log.size, 6);
    CHECK_INT(outlog_append(&log, "", 0), 0);
    outlog_done(&log);
    outlog_done(&log);
}

TEST(outlog_trim_drops_the_oldest_bytes_of_the_larger_stream) {
    enum { CAP = 1 << 20 };
    struct outlog logs[2];
    static uint8_t bytes[10000];
    CHECK_INT(outlog_init(&logs[0], new_file()), 0);
    CHECK_INT(outlog_init(&logs[1], new_file()), 0);
    for (int i = 0; i < 2000; i++) {
        size_t n = 1 + (size_t)(i * 7919) % sizeof bytes;
        struct outlog *log = &logs[i % 3 == 0];
        uint64_t before[2] = {outlog_kept(&logs[0]), outlog_kept(&logs[1])};
        outlog_trim(logs, 2, CAP, n);
        uint64_t kept = outlog_kept(&logs[0]) + outlog_kept(&logs[1]);
        uint64_t dropped = before[0] + before[1] - kept;
        uint64_t need = before[0] + before[1] + n > CAP ? before[0] + before[1] + n - CAP : 0;
        CHECK(kept + n <= CAP && dropped >= need && dropped < need + CAP / 16 + 1);
        if (dropped > 0 && before[0] > before[1])
            CHECK(outlog_kept(&logs[0]) < before[0]);
        memset(bytes, i, n);
        CHECK_INT(outlog_append(log, bytes, n), n);
    }
    CHECK(logs[0].first > 0 && logs[0].first % OUTLOG_BLOCK == 0);
    struct outlog_view view = {0};
    uint64_t first = 0;
    uint8_t byte;
    CHECK_INT(outlog_read(&view, logs[0].fd, 0, &byte, 1, &first), -ENODATA);
    CHECK_INT(first, logs[0].first);
    CHECK_INT(outlog_read(&view, logs[0].fd, first, &byte, 1, &first), 1);
    CHECK_INT(outlog_read(&view, logs[0].fd, logs[0].size, &byte, 1, &first), 0);
    outlog_done(&logs[0]);
    outlog_done(&logs[1]);
}

TEST(outlog_accepts_a_write_larger_than_its_cap) {
    struct outlog log;
    static uint8_t bytes[3 * OUTLOG_CAP_MIN];
    CHECK_INT(outlog_init(&log, new_file()), 0);
    memset(bytes, 1, sizeof bytes);
    outlog_trim(&log, 1, OUTLOG_CAP_MIN, sizeof bytes);
    CHECK_INT(outlog_append(&log, bytes, sizeof bytes), sizeof bytes);
    outlog_trim(&log, 1, OUTLOG_CAP_MIN, 1);
    CHECK(outlog_kept(&log) < OUTLOG_CAP_MIN);
    outlog_done(&log);
}

TEST(outlog_reader_notices_tampering) {
    struct outlog log;
    struct outlog_view view = {0};
    uint64_t first;
    char got[8];
    CHECK_INT(outlog_init(&log, new_file()), 0);
    CHECK_INT(outlog_append(&log, "abcdef", 6), 6);
    CHECK_INT(outlog_read(&view, log.fd, 2, got, sizeof got, &first), 4);
    CHECK_BYTES(got, 4, "cdef", 4);
    CHECK_INT(ftruncate(log.fd, 5), 0);
    CHECK_INT(outlog_read(&view, log.fd, 0, got, sizeof got, &first), -EUCLEAN);
    CHECK_INT(ftruncate(log.fd, 6),
              0); /* the same size again; noticed only if a read came in between */
    CHECK_INT(view.seen, 6);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CHECK_INT(outlog_read(&view, null, 0, got, 1, &first), -EUCLEAN);
    close(null);
    outlog_done(&log);
}

TEST(outlog_stops_at_the_largest_file_size) {
    struct rlimit old, small = {.rlim_cur = 5};
    char path[] = "/tmp/outlog-XXXXXX";
    struct outlog log;
    int fd = mkostemp(path, O_CLOEXEC);
    CHECK(fd >= 0);
    unlink(path);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_INT(outlog_init(&log, fd), 0);
    CHECK_INT(outlog_append(&log, "abcdefgh", 8), 5);
    CHECK_INT(outlog_append(&log, "abcdefgh", 8), -EFBIG);
    CHECK_INT(log.size, 5);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    outlog_done(&log);
}

TEST(outlog_skip_leaves_a_hole_that_readers_see) {
    struct outlog log;
    struct outlog_view view = {0};
    static char block[OUTLOG_BLOCK];
    uint64_t first = 0;
    int fd = new_file();
    CHECK_INT(outlog_init(&log, fd), 0);
    CHECK_INT(outlog_append(&log, block, sizeof block), OUTLOG_BLOCK);
    CHECK_INT(outlog_skip(&log, OUTLOG_BLOCK + 100), 0);
    CHECK_INT(log.size, 2 * OUTLOG_BLOCK + 100);
    CHECK_INT(outlog_read(&view, fd, 0, block, sizeof block, &first), OUTLOG_BLOCK);
    CHECK_INT(outlog_read(&view, fd, OUTLOG_BLOCK, block, sizeof block, &first), -ENODATA);
    CHECK_INT(first, log.size);
    CHECK_INT(outlog_append(&log, "on", 2), 2); /* after the hole */
    CHECK_INT(log.size, 2 * OUTLOG_BLOCK + 102);
    outlog_done(&log);
    CHECK_INT(outlog_skip(&log, 7), 0);
    CHECK_INT(log.size, 2 * OUTLOG_BLOCK + 109);
}
