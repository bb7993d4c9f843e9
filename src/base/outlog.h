/* outlog — append-only output of a program in a file it is given, addressed by byte offset.
 *
 * Byte N of the stream is byte N of the file. Dropped bytes are punched out of the front, so the size
 * never falls and offsets never move.
 * Writer: the guest, one per stream; the pair of a program shares one cap.
 * Reader: the daemon, which trusts neither file nor told sizes: a file shorter than it once was has been
 *         tampered with.
 * Bounds: cap_bytes kept by both streams together; dropping goes at most a sixteenth of it too far. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

#define OUTLOG_BLOCK 4096 /* granularity of dropping */
#define OUTLOG_CAP_MIN 65536

struct outlog {
    int fd;         /* owned; -1: bytes are counted and lost */
    uint64_t size;  /* bytes ever appended */
    uint64_t first; /* first byte kept */
};

/* Takes a regular, empty file opened for writing; sets O_APPEND. -EINVAL for anything else, and then the
 * fd stays the caller's. */
MUST_USE int outlog_init(struct outlog *log, int fd);
void outlog_done(struct outlog *log);
static inline uint64_t outlog_kept(const struct outlog *log) {
    return log->size - log->first;
}

/* Appends all of it, or as much as went before a failure: returns the count, or -errno when nothing
 * went. */
MUST_USE ssize_t outlog_append(struct outlog *log, const void *bytes, size_t n);
/* Counts bytes that are lost as written: a hole, which needs no room and which readers are told of. */
MUST_USE int outlog_skip(struct outlog *log, uint64_t n);
/* Makes room for `incoming` more bytes under the cap by dropping the oldest of the stream that holds
 * more. */
void outlog_trim(struct outlog *pair, size_t n_logs, uint64_t cap_bytes, uint64_t incoming);

/* What a reader knows of one log; zeroed at first. */
struct outlog_view {
    uint64_t seen; /* largest size the file was seen to have */
};
/* Reads at `offset`. Returns the count, 0 at the end. -EUCLEAN: the file shrank; -ENODATA: bytes there
 * are dropped, and ret_first is the next offset that is kept. */
MUST_USE ssize_t outlog_read(struct outlog_view *view, int fd, uint64_t offset, void *out, size_t n,
                             uint64_t *ret_first);
