/* file_reader — reads a regular file on the loop, while a worker thread prefetches its pages.
 *
 * Uncached pages block, so a thread of libuv's pool prefetches them into the page cache. The thread
 * copies nothing: the loop reads the cached bytes straight into the buffer that sends them.
 * Owner:   whoever opened it.
 * End:     file_reader_close, at any time, also inside on_ready. A prefetch that is running then
 *          finishes without a callback.
 * Bounds:  no buffer; the thread is at most two windows of 1 MiB ahead. Small files are read
 *          without it.
 * Errors:  every call after a failure of the thread returns that failure. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/files/file_work.h"

struct file_reader;

/* The part of a file to read. `known` is the end according to the size that the guest reported. */
struct file_range {
    uint64_t offset, end, known;
};

/* Takes the descriptor. NULL: no memory; the descriptor is closed. */
struct file_reader *file_reader_open(struct file_turns *turns, int fd_take, struct file_range range,
                                     void (*on_ready)(void *user), void *user);
/* `r` may be NULL. */
void file_reader_close(struct file_reader *r);
/* Returns the number of bytes read, at most n; 0 at the end of the file; -EAGAIN when the caller
 * should retry after on_ready, which fires once, from the loop; otherwise -errno. */
MUST_USE ssize_t file_reader_read(struct file_reader *r, uint8_t *into, size_t n);
