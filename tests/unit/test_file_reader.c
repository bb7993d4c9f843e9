#include "core/files/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "harness.h"

#define PART_BYTES ((size_t)256 << 10)
#define LARGE_BYTES ((size_t)3 << 20)
#define SMALL_BYTES ((size_t)64 << 10)

/* Reads all of [from, to) of a file of n bytes, in parts of `part`. */
struct eater {
    uv_loop_t loop;
    struct file_turns turns;
    struct file_reader *reader;
    uint8_t *bytes; /* contents of the file */
    uint8_t *got;
    size_t n, n_got, part;
    int file;  /* the test's descriptor */
    int fd;    /* the reader's descriptor */
    int ended; /* 1 while reading; then 0 or the error */
    int waits;
    int close_at;      /* close the reader at this wait; 0: never */
    size_t shorten_at; /* truncate the file after this many bytes; 0: never */
};

static void eat(struct eater *t) {
    ssize_t r;
    while ((r = file_reader_read(t->reader, t->got + t->n_got, t->part)) > 0) {
        CHECK((size_t)r <= t->part && (size_t)r <= t->n - t->n_got);
        t->n_got += (size_t)r;
        if (t->n_got == t->shorten_at)
            CHECK_INT(ftruncate(t->file, (off_t)t->n_got), 0);
    }
    if (r != -EAGAIN)
        t->ended = (int)r;
}

static void on_ready(void *user) {
    struct eater *t = user;
    CHECK(t->reader != NULL); /* no callback after the close */
    if (++t->waits == t->close_at) {
        file_reader_close(t->reader);
        t->reader = NULL;
        return;
    }
    eat(t);
}

static void eater_open(struct eater *t, size_t n, uint64_t from, uint64_t to) {
    *t = (struct eater){.n = n, .part = PART_BYTES, .ended = 1};
    t->bytes = malloc(n + 1);
    t->got = malloc(n + PART_BYTES);
    for (size_t i = 0; i < n; i++)
        t->bytes[i] = (uint8_t)(i * 7 + i / 251);
    uv_loop_init(&t->loop);
    file_turns_init(&t->turns, &t->loop);
    t->file = memfd_create("file", MFD_CLOEXEC);
    CHECK_INT(pwrite(t->file, t->bytes, n, 0), (long long)n);
    t->fd = fcntl(t->file, F_DUPFD_CLOEXEC, 0);
    t->reader = file_reader_open(&t->turns, t->fd, (struct file_range){from, to, to}, on_ready, t);
}

static void eater_run(struct eater *t) {
    eat(t);
    uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void eater_close(struct eater *t) {
    file_reader_close(t->reader);
    t->reader = NULL;
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    CHECK_INT(fcntl(t->fd, F_GETFD), -1);
    close(t->file);
    free(t->bytes);
    free(t->got);
}

/* Blocks readers while `path` exists. */
static void hold(char path[32]) {
    strcpy(path, "/tmp/berm-hold-XXXXXX");
    close(mkstemp(path));
    setenv("BERM_FILE_HOLD", path, 1);
    CHECK(failpoint_setup());
}

static void let_go(const char *path) {
    CHECK_INT(unlink(path), 0);
}

TEST(file_reader_reads_small_files_immediately) {
    static const size_t sizes[] = {0, 1, SMALL_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct eater t;
        eater_open(&t, sizes[i], 0, sizes[i]);
        eat(&t); /* without a loop iteration */
        CHECK_INT(t.ended, 0);
        CHECK_BYTES(t.got, t.n_got, t.bytes, t.n);
        eater_close(&t);
    }
}

TEST(file_reader_reads_every_byte_once) {
    static const size_t parts[] = {PART_BYTES, (1 << 20) + 1, 100000, 333};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct eater t;
        eater_open(&t, LARGE_BYTES + 17, 0, LARGE_BYTES + 17);
        t.got = realloc(t.got, t.n + parts[i]);
        t.part = parts[i];
        eater_run(&t);
        CHECK_INT(t.ended, 0);
        CHECK(t.waits > 0);
        CHECK_BYTES(t.got, t.n_got, t.bytes, t.n);
        CHECK_INT(file_reader_read(t.reader, t.got, 1), 0); /* and again */
        eater_close(&t);
    }
}

TEST(file_reader_reads_the_requested_range) {
    static const struct {
        uint64_t from, to;
    } ranges[] = {
        {5, 6}, {SMALL_BYTES, LARGE_BYTES - 1}, {LARGE_BYTES - 3, LARGE_BYTES}, {1, PART_BYTES + 1},
        {7, 7}, {LARGE_BYTES, LARGE_BYTES}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct eater t;
        eater_open(&t, LARGE_BYTES, ranges[i].from, ranges[i].to);
        eater_run(&t);
        CHECK_INT(t.ended, 0);
        CHECK_BYTES(t.got, t.n_got, t.bytes + ranges[i].from, ranges[i].to - ranges[i].from);
        eater_close(&t);
    }
}

TEST(file_reader_stops_at_end_of_file) {
    struct eater t;
    eater_open(&t, 1000, 0, SMALL_BYTES); /* shorter than announced from the start */
    eater_run(&t);
    CHECK_INT(t.ended, 0);
    CHECK_BYTES(t.got, t.n_got, t.bytes, 1000);
    eater_close(&t);
    eater_open(&t, 1000, 0, (uint64_t)1 << 40); /* unknown length */
    eater_run(&t);
    CHECK_INT(t.ended, 0);
    CHECK(t.waits > 0);
    CHECK_BYTES(t.got, t.n_got, t.bytes, 1000);
    eater_close(&t);
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES); /* truncated meanwhile */
    t.shorten_at = 2 * PART_BYTES;
    eater_run(&t);
    CHECK_INT(t.ended, 0);
    CHECK_INT(t.n_got, 2 * PART_BYTES);
    CHECK_BYTES(t.got, t.n_got, t.bytes, 2 * PART_BYTES);
    eater_close(&t);
}

/* Unblocks the disk and checks that everything arrived. */
static void expect_the_rest(struct eater *t, const char *path) {
    let_go(path);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(t->ended, 0);
    CHECK_BYTES(t->got, t->n_got, t->bytes, t->n);
    eater_close(t);
}

TEST(file_reader_reads_uncached_pages_on_a_thread) {
    struct eater t;
    char path[32];
    hold(path);
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    eat(&t); /* does not block */
    CHECK_INT(t.ended, 1);
    for (int turn = 0; turn < 5; turn++)
        uv_run(&t.loop, UV_RUN_NOWAIT);
    CHECK_INT(file_reader_read(t.reader, t.got, 1), -EAGAIN);
    CHECK_INT(t.waits, 0);
    expect_the_rest(&t, path);
}

TEST(file_reader_prefetches_two_windows) {
    struct eater t;
    char path[32];
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    t.part = 0;
    for (int i = 0; i < 5; i++) /* asks but reads nothing */
        eater_run(&t);
    CHECK_INT(t.waits, 1);
    hold(path);
    t.part = 300000; /* the last part is partial */
    t.ended = 1;
    eat(&t);
    CHECK_INT(t.n_got, 2 << 20);
    CHECK_INT(t.ended, 1);
    expect_the_rest(&t, path);
}

/* Returns how many pages of the first n bytes are cached. */
static size_t pages_near(int fd, size_t n) {
    unsigned char is_near[256] = {0};
    size_t count = 0;
    void *at = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    CHECK_INT(mincore(at, n, is_near), 0);
    for (size_t i = 0; i < n / 4096; i++)
        count += is_near[i] & 1;
    munmap(at, n);
    return count;
}

/* Always true on file systems without a disk. */
TEST(file_reader_loop_reads_only_cached_pages) {
    struct eater t;
    char path[] = "/var/tmp/berm-reader-XXXXXX";
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    int disk = mkstemp(path);
    CHECK_INT(write(disk, t.bytes, t.n), (long long)t.n);
    CHECK_INT(fsync(disk), 0);
    CHECK_INT(posix_fadvise(disk, 0, 0, POSIX_FADV_RANDOM), 0); /* no readahead by the kernel */
    CHECK_INT(posix_fadvise(disk, 0, 0, POSIX_FADV_DONTNEED), 0);
    dup3(disk, t.fd, O_CLOEXEC);
    t.part = 0;
    eater_run(&t);
    CHECK_INT(pages_near(disk, 1 << 20), 256);
    unlink(path);
    close(disk);
    eater_close(&t);
}

TEST(file_reader_reports_a_failure_and_then_nothing) {
    static const struct {
        size_t n;
        const char *path;
        int flags, failure;
    } files[] = {{100, "/", O_RDONLY, -EISDIR},
                 {LARGE_BYTES, "/", O_RDONLY, -EISDIR}, /* the thread cannot detect this */
                 {LARGE_BYTES, "/dev/null", O_WRONLY, -EBADF}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct eater t;
        eater_open(&t, files[i].n, 0, files[i].n);
        int other = open(files[i].path, files[i].flags | O_CLOEXEC);
        dup3(other, t.fd, O_CLOEXEC);
        close(other);
        eater_run(&t);
        CHECK_INT(t.ended, files[i].failure);
        CHECK_INT(t.waits, files[i].n > SMALL_BYTES);
        CHECK_INT(file_reader_read(t.reader, t.got, 1), files[i].failure);
        eater_close(&t);
    }
}

TEST(file_reader_reports_errors_of_the_thread) {
    struct eater t;
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    int other = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_INT(dup3(other, t.fd, O_CLOEXEC), t.fd);
    close(other);
    eater_run(&t);
    CHECK_INT(t.ended, -EBADF);
    CHECK_INT(t.n_got, 0);
    CHECK_INT(file_reader_read(t.reader, t.got, 1), -EBADF);
    eater_close(&t);
}

TEST(file_reader_continues_without_free_descriptors) {
    struct eater t;
    struct rlimit were, none;
    CHECK_INT(getrlimit(RLIMIT_NOFILE, &were), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = were.rlim_max};
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    eater_run(&t);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &were), 0);
    CHECK_INT(t.ended, 0);
    CHECK_INT(t.n_got, LARGE_BYTES);
    eater_close(&t);
}

TEST(file_reader_can_be_closed_at_any_time) {
    for (int at = 1; at < 4; at++) { /* inside on_ready */
        struct eater t;
        eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
        t.close_at = at;
        eater_run(&t);
        CHECK_INT(t.waits, at);
        eater_close(&t);
    }
    struct eater t;
    char path[32];
    hold(path);
    eater_open(&t, LARGE_BYTES, 0, LARGE_BYTES);
    eat(&t);
    file_reader_close(t.reader); /* while the thread reads: on_ready must not fire */
    t.reader = NULL;
    CHECK(fcntl(t.fd, F_GETFD) >= 0); /* the thread still uses it */
    let_go(path);
    eater_close(&t);
    CHECK_INT(t.waits, 0);
    eater_open(&t, 1, 0, 1);
    eater_close(&t);
    file_reader_close(NULL);
}

TEST(file_reader_reports_out_of_memory) {
    struct eater t;
    eater_open(&t, 1, 0, 1);
    file_reader_close(t.reader);
    t.fd = fcntl(t.file, F_DUPFD_CLOEXEC, 0);
    alloc_fail_at(1);
    t.reader = file_reader_open(&t.turns, t.fd, (struct file_range){0, 1, 1}, on_ready, &t);
    alloc_fail_at(0);
    CHECK(!t.reader);
    eater_close(&t);
}
