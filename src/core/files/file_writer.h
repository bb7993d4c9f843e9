/* file_writer — writes a regular file on a worker thread.
 *
 * A slow or busy disk blocks its writers, so a thread of libuv's pool writes. The loop receives the
 * next piece meanwhile.
 * Owner:   whoever opened it.
 * End:     file_writer_close, at any time, also inside on_ready. A piece that is being written then
 *          is finished without a callback.
 * Bounds:  two pieces of 512 KiB, one being written and one being filled. Small files are written
 *          directly.
 * Errors:  every call after the first failure returns that failure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/files/file_work.h"

struct file_writer;

/* Takes the descriptor and writes from offset 0 on. NULL: no memory; the descriptor is closed. */
struct file_writer *file_writer_open(struct file_turns *turns, int fd_take,
                                     void (*on_ready)(void *user), void *user);
/* `w` may be NULL. */
void file_writer_close(struct file_writer *w);
/* Returns the number of bytes accepted; -EAGAIN when the caller should retry after on_ready, which
 * fires once, from the loop; otherwise -errno. */
MUST_USE ssize_t file_writer_write(struct file_writer *w, const uint8_t *bytes, size_t n);
/* Returns whether the writer accepts another message of the usual size as a whole. If not, on_ready
 * fires once, from the loop. */
bool file_writer_is_writable(struct file_writer *w);
/* Returns 0 when all accepted bytes are written; -EAGAIN and failures as file_writer_write does. */
MUST_USE int file_writer_flush(struct file_writer *w);
