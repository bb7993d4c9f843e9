/* archive — a tree being packed or unpacked: a child as the sandbox user, a pipe that is the daemon's, and
 * the outcome told by `tree_done`. pack.c and unpack.c are the children's work, base/tar.c the format.
 *
 * Owner:  its handle: `close` and the end of the connection kill the child, and nothing is told then.
 * Bytes:  the pipe's end travels to the daemon. Where it cannot, read_chunk and write_chunk move them through
 *         the guest: in order, one request at a time, which waits until the child gave or took something; a
 *         write_chunk of nothing ends the stream.
 * Bounds: ARCHIVES_MAX children; the pipe; a chunk. The child holds no more than some names of the tree. */
#pragma once

#include "guest/guest.h"

#define ARCHIVES_MAX 8

struct archive;
struct handle;

int archive_method_pack(struct request *r, struct err *e);
int archive_method_unpack(struct request *r, struct err *e);

/* By read_chunk and write_chunk, for a handle that is an archive's. */
MUST_USE int archive_read(struct archive *a, struct request *r, uint64_t offset, size_t max,
                          struct err *e);
MUST_USE int archive_write(struct archive *a, struct request *r, uint64_t offset, struct str data,
                           struct err *e);
void archive_close(struct archive *a);

/* In the child: what is sent to the guest at the end. */
struct archive_result {
    struct err err; /* code ERR_NONE: it went well */
    uint64_t files, directories, total_bytes, skipped_special, skipped_unreadable;
};

/* Opens the pipe and the way back to the guest. `is_input`: the child reads. Fills w->fds; returns the child's
 * end of the pipe and the way back. */
MUST_USE int archive_begin(struct work *w, bool is_input, int *ret_pipe, int *ret_back,
                           struct err *e);
/* Tells the guest, once. */
void archive_end(int back, const struct archive_result *result);
work_fn work_pack;
work_fn work_unpack;
