/* outlog — the output of a program, appended to a file and addressed by byte offset.
 *
 * Byte N of the stream is byte N of the file. Dropping old output punches a hole at the front of
 * the file, so the size never shrinks and offsets stay valid.
 * Writer: the guest, one outlog per stream. The two streams of a program share one cap.
 * Reader: the daemon. It trusts neither the file nor the sizes that the guest reports: if the file
 *         is shorter than before, someone tampered with it.
 * Bounds: both streams together keep at most cap_bytes. A trim drops up to 1/16 of the cap more
 *         than necessary. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define OUTLOG_BLOCK 4096 /* bytes; the granularity of a trim */
#define OUTLOG_CAP_MIN 65536

struct outlog {
    int fd;         /* owned; if -1, appended bytes are counted and discarded */
    uint64_t size;  /* bytes ever appended */
    uint64_t first; /* offset of the first byte kept */
};

/* Takes ownership of a regular, empty file that is open for writing, and sets O_APPEND. Fails with
 * -EINVAL for any other descriptor; the fd then remains the caller's. */
MUST_USE int outlog_init(struct outlog *log, int fd);
void outlog_done(struct outlog *log);
static inline uint64_t outlog_kept(const struct outlog *log) {
    return log->size - log->first;
}

/* Appends the bytes. Returns how many were written, which is less than n after a failure, or -errno
 * when none were. */
MUST_USE ssize_t outlog_append(struct outlog *log, const void *bytes, size_t n);
/* Skips n bytes that could not be stored. They become a hole in the file, which needs no disk space
 * and which outlog_read reports. */
MUST_USE int outlog_skip(struct outlog *log, uint64_t n);
/* Drops old output until `incoming` more bytes fit under the cap. Drops from the stream that keeps
 * more. */
void outlog_trim(struct outlog *pair, size_t n_logs, uint64_t cap_bytes, uint64_t incoming);

/* The state of a reader of one log; starts as all zeros. */
struct outlog_view {
    uint64_t seen; /* largest file size seen so far */
};
/* Reads at `offset`. Returns the count, or 0 at the end. Fails with -EUCLEAN when the file shrank.
 * Fails with -ENODATA when the bytes at `offset` were dropped; ret_first is then the next offset
 * that has data. */
MUST_USE ssize_t outlog_read(struct outlog_view *view, int fd, uint64_t offset, void *out, size_t n,
                             uint64_t *ret_first);
