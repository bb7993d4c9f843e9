/* file_reader — bytes of a regular file, which a thread of libuv's pool brings into the page cache ahead.
 *
 * What is not there yet is waited for, and the loop serves everybody and must not wait. The thread waits, and copies
 * nothing: the loop reads to where the bytes are sent from, out of memory.
 *
 * Owner:   whoever opened it.       Ends: file_reader_close, at any time, also from inside on_ready; what the thread
 *          waits for then is still waited for, and nobody is told.
 * Bounds:  no memory of ours; the thread is at most two windows of 1 MiB ahead. Small files do without it.
 * Errors:  the thread's failure answers every call that follows. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/files/file_work.h"

struct file_reader;

/* What is read. `known`: where it ends by the size that the file was said to have. */
struct file_range {
    uint64_t offset, end, known;
};

/* Takes the descriptor. NULL: memory is short, and the descriptor is closed. */
struct file_reader *file_reader_open(struct file_turns *turns, int fd_take, struct file_range range,
                                     void (*on_ready)(void *user), void *user);
/* Idempotent for NULL. */
void file_reader_close(struct file_reader *r);
/* The count of the next bytes, up to n; 0: there are no more; -EAGAIN: on_ready comes once, from the loop, when to try
 * again; else -errno. */
MUST_USE ssize_t file_reader_read(struct file_reader *r, uint8_t *into, size_t n);
