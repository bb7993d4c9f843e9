/* archive — a directory tree that a child packs into a tar stream, or unpacks from one, as the sandbox user.
 *
 * Owner:  its handle. `close` and the end of the connection kill the child; then no `tree_done` follows.
 * End:    `tree_done` reports the result, once.
 * Bytes:  the daemon gets the other end of the child's pipe. On a link that passes no files, read_chunk and
 *         write_chunk move the bytes: in order, one request at a time. A request waits until the child has
 *         written or read something. An empty write_chunk ends the stream.
 * Bounds: ARCHIVES_MAX children, and one chunk per archive.
 * pack.c and unpack.c run in the child; base/tar.c implements the format. */
#pragma once

#include "guest/jobs.h"

#define ARCHIVES_MAX 8

struct archive;
struct request;

int archive_method_pack(struct request *r, struct err *e);
int archive_method_unpack(struct request *r, struct err *e);

/* Handle read_chunk and write_chunk for the handle of an archive. */
MUST_USE int archive_read(struct archive *a, struct request *r, uint64_t offset, size_t max,
                          struct err *e);
MUST_USE int archive_write(struct archive *a, struct request *r, uint64_t offset, struct str data,
                           struct err *e);
void archive_close(struct archive *a);

/* What the child sends to the guest at the end. */
struct archive_result {
    struct err err; /* code ERR_NONE: success */
    uint64_t files, directories, total_bytes, skipped_special, skipped_unreadable;
};

/* Runs in the child. Creates the pipe for the stream and the socket for the result. Stores the ends
 * for the guest in w->fds and returns the ends that the child keeps. `is_input`: the child reads the
 * stream; else it writes the stream. */
MUST_USE int archive_begin(struct work *w, bool is_input, int *ret_pipe, int *ret_sock,
                           struct err *e);
/* In the child: sends the result. Call once. */
void archive_end(int sock, const struct archive_result *result);
work_fn pack_work;
work_fn unpack_work;
