/* copy_feed — reads a pipe and sends its bytes to the guest in chunks, for guests that cannot
 * receive a descriptor.
 *
 * Owner:   its creator.             End: copy_feed_close, at any time.
 * Bounds:  one chunk and one pending request.
 * Errors:  if the guest refuses more bytes, it reports the reason in TREE_DONE, and the writer of
 *          the pipe gets EPIPE. */
#pragma once

#include <uv.h>

#include "core/guest/guest_files.h"

struct copy_feed;

/* Creates a pipe and passes its write end to the caller. The link must outlive the feed. */
MUST_USE int copy_feed_new(uv_loop_t *loop, struct guest_link *link, uint64_t handle,
                           struct copy_feed **ret_feed, int *ret_write_fd, struct err *e);
/* `f` may be NULL. */
void copy_feed_close(struct copy_feed *f);
