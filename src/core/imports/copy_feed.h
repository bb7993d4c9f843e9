/* copy_feed — a pipe into a guest that cannot take the end of one: read here, sent chunk after chunk.
 *
 * Owner:   whoever made it.         Ends: copy_feed_close, at any time.
 * Bounds:  one chunk, and one request under way.
 * A guest that takes no more has its reasons and tells them by `tree_done`; the pipe then breaks for whoever
 * writes into it. */
#pragma once

#include <uv.h>

#include "core/guest/guest_files.h"

struct copy_feed;

/* The caller closes the end to write to. The link outlives the feed. */
MUST_USE int copy_feed_new(uv_loop_t *loop, struct guest_link *link, uint64_t handle,
                           struct copy_feed **ret_feed, int *ret_write_fd, struct err *e);
/* Idempotent for NULL. */
void copy_feed_close(struct copy_feed *f);
