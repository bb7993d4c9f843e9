/* file_writer — bytes into a regular file, written on a thread of libuv's pool.
 *
 * A disk that is slow, or has much to write already, keeps its writers waiting; the loop serves everybody and must
 * not wait with them. And while one piece is written the next one is received.
 *
 * Owner:   whoever opened it.       Ends: file_writer_close, at any time, also from inside on_ready; a piece that
 *          is under way then is still written, and nobody is told.
 * Bounds:  two pieces of 512 KiB, one being written and one being filled. Small files need neither.
 * Errors:  the first failure answers every call that follows. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/files/file_work.h"

struct file_writer;

/* Takes the descriptor and writes from the file's first byte on. NULL: memory is short, and the descriptor is closed. */
struct file_writer *file_writer_open(struct file_turns *turns, int fd_take,
                                     void (*on_ready)(void *user), void *user);
/* Idempotent for NULL. */
void file_writer_close(struct file_writer *w);
/* The count of those taken; -EAGAIN: on_ready comes once, from the loop, when to try again; else -errno. */
MUST_USE ssize_t file_writer_write(struct file_writer *w, const uint8_t *bytes, size_t n);
/* Whether another piece of the usual size can be taken whole. If not, on_ready comes as above. */
bool file_writer_is_writable(struct file_writer *w);
/* 0 when all that was taken is written; -EAGAIN and failures as above. */
MUST_USE int file_writer_flush(struct file_writer *w);
