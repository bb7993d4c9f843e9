#include "core/files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

#define LARGE_BYTES ((size_t)3 << 20)
#define SMALL_BYTES ((size_t)64 << 10)

/* Writes `bytes` in parts of `part`, then waits for the end. */
struct feeder {
    uv_loop_t loop;
    struct file_turns turns;
    struct file_writer *writer;
    uint8_t *bytes;
    size_t n, at, part;
    int file;  /* the test's descriptor, to check the contents */
    int fd;    /* the writer's descriptor */
    int ended; /* the last result of flush, or an earlier error */
    int waits;
    int close_at; /* close the writer at this wait; 0: never */
};

static void feed(struct feeder *f) {
    while (f->at < f->n) {
        size_t n = f->n - f->at < f->part ? f->n - f->at : f->part;
        ssize_t r = file_writer_write(f->writer, f->bytes + f->at, n);
        if (r < 0) {
            f->ended = (int)r;
            return;
        }
        CHECK(r > 0 && (size_t)r <= n);
        f->at += (size_t)r;
    }
    f->ended = file_writer_flush(f->writer);
}

static void on_ready(void *user) {
    struct feeder *f = user;
    CHECK(f->writer != NULL); /* no callback after the close */
    if (++f->waits == f->close_at) {
        file_writer_close(f->writer);
        f->writer = NULL;
        return;
    }
    feed(f);
}

static void feeder_open(struct feeder *f, size_t n, size_t part) {
    *f = (struct feeder){.n = n, .part = part, .bytes = malloc(n)};
    for (size_t i = 0; i < n; i++)
        f->bytes[i] = (uint8_t)(i * 7 + i / 251);
    uv_loop_init(&f->loop);
    file_turns_init(&f->turns, &f->loop);
    f->file = memfd_create("file", MFD_CLOEXEC);
    f->fd = fcntl(f->file, F_DUPFD_CLOEXEC, 0);
    f->writer = file_writer_open(&f->turns, f->fd, on_ready, f);
}

static void feeder_run(struct feeder *f) {
    feed(f);
    uv_run(&f->loop, UV_RUN_DEFAULT);
}

static void feeder_close(struct feeder *f) {
    file_writer_close(f->writer);
    f->writer = NULL;
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    CHECK_INT(fcntl(f->fd, F_GETFD), -1);
    close(f->file);
    free(f->bytes);
}

static bool all_is_there(const struct feeder *f) {
    struct stat st;
    uint8_t *got = malloc(f->n);
    bool same = fstat(f->file, &st) == 0 && (size_t)st.st_size == f->n &&
                pread(f->file, got, f->n, 0) == (ssize_t)f->n && memcmp(got, f->bytes, f->n) == 0;
    free(got);
    return same;
}

TEST(file_writer_writes_small_files_immediately) {
    struct feeder f;
    feeder_open(&f, SMALL_BYTES, 1000);
    feed(&f); /* without a loop iteration */
    CHECK_INT(f.ended, 0);
    CHECK(all_is_there(&f));
    feeder_close(&f);
}

TEST(file_writer_writes_every_byte_at_its_offset) {
    static const size_t parts[] = {1 << 20, 512 << 10, (512 << 10) + 1, 100000, 4096, 333};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct feeder f;
        feeder_open(&f, LARGE_BYTES + 17, parts[i]);
        feeder_run(&f);
        CHECK_INT(f.ended, 0);
        CHECK(f.waits > 0);
        CHECK(all_is_there(&f));
        feeder_close(&f);
    }
}

TEST(file_writer_writes_to_the_disk_on_a_thread) {
    struct feeder f;
    feeder_open(&f, LARGE_BYTES, LARGE_BYTES);
    feed(&f);
    CHECK_INT(f.ended, -EAGAIN);
    CHECK(f.at < f.n); /* the buffer is bounded */
    CHECK_INT(file_writer_flush(f.writer), -EAGAIN);
    CHECK_INT(f.waits, 0); /* never inside the call */
    uv_run(&f.loop, UV_RUN_DEFAULT);
    CHECK_INT(f.ended, 0);
    CHECK(all_is_there(&f));
    feeder_close(&f);
}

TEST(file_writer_reports_when_it_is_full) {
    struct feeder f;
    feeder_open(&f, LARGE_BYTES, LARGE_BYTES);
    CHECK(file_writer_is_writable(f.writer));
    CHECK_INT(file_writer_write(f.writer, f.bytes, 512 << 10), 512 << 10); /* being written */
    CHECK(file_writer_is_writable(f.writer));
    CHECK_INT(file_writer_write(f.writer, f.bytes, 200 << 10), 200 << 10);
    CHECK(file_writer_is_writable(f.writer));
    CHECK_INT(file_writer_write(f.writer, f.bytes, 100 << 10), 100 << 10);
    f.at = f.n;
    CHECK(!file_writer_is_writable(f.writer));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    CHECK(f.waits > 0);
    CHECK_INT(f.ended, 0);
    CHECK_INT(lseek(f.file, 0, SEEK_END), 812 << 10);
    feeder_close(&f);
}

TEST(file_writer_reports_a_full_disk_and_then_nothing) {
    static const size_t sizes[] = {100, LARGE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct feeder f;
        feeder_open(&f, sizes[i], sizes[i]);
        int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
        dup3(full, f.fd, O_CLOEXEC);
        close(full);
        feeder_run(&f);
        CHECK_INT(f.ended, -ENOSPC);
        CHECK_INT(file_writer_write(f.writer, f.bytes, 1), -ENOSPC);
        CHECK_INT(file_writer_flush(f.writer), -ENOSPC);
        feeder_close(&f);
    }
}

TEST(file_writer_can_be_closed_at_any_time) {
    for (int at = 1; at < 4; at++) { /* inside on_ready, with a pending part and without */
        struct feeder f;
        feeder_open(&f, LARGE_BYTES, LARGE_BYTES);
        f.close_at = at;
        feeder_run(&f);
        CHECK_INT(f.waits, at);
        feeder_close(&f);
    }
    struct feeder f;
    feeder_open(&f, LARGE_BYTES, LARGE_BYTES);
    feed(&f);
    feeder_close(&f); /* while the thread writes: on_ready must not fire */
    CHECK_INT(f.waits, 0);
    feeder_open(&f, 1, 1);
    feeder_close(&f);
    file_writer_close(NULL);
}

TEST(file_writer_reports_out_of_memory) {
    for (unsigned n = 1; n <= 3; n++) {
        struct feeder f;
        feeder_open(&f, LARGE_BYTES, LARGE_BYTES);
        file_writer_close(f.writer);
        f.fd = fcntl(f.file, F_DUPFD_CLOEXEC, 0);
        alloc_fail_at(n);
        f.writer = file_writer_open(&f.turns, f.fd, on_ready, &f);
        if (f.writer)
            feed(&f);
        alloc_fail_at(0);
        uv_run(&f.loop, UV_RUN_DEFAULT);
        CHECK_INT(f.ended, n == 1 ? 0 : -ENOMEM);
        CHECK(n > 1 || !f.writer);
        feeder_close(&f);
    }
}
