/* file_pipe — the daemon's end of a pipe to a child of the guest, for the bytes of a tree. It never
 * blocks.
 *
 * If the guest passed no descriptor, the pipe stays in the guest and the bytes travel in chunks,
 * one at a time. The owner then passes the answers of the file call to file_pipe_answer.
 * Owner:   whoever opened it.       End: file_pipe_close, also inside on_ready.
 * Bounds:  one chunk.
 * Errors:  -errno; a guest may set the flags of the pipe, so every read and write asks for
 *          non-blocking I/O itself. */
#pragma once

#include "core/files/files.h"

struct file_pipe;

/* Takes the pipe from the answer to PACK (O_RDONLY) or UNPACK (O_WRONLY). NULL: no memory. */
struct file_pipe *file_pipe_open(struct file_call *f, const struct guest_answer *a, int access,
                                 void (*on_ready)(void *user), void *user);
void file_pipe_close(struct file_pipe *p);
/* Ends the stream after the last write. Returns the pipe if the guest still has to receive the end
 * of the stream; the owner closes the pipe later. Otherwise closes it and returns NULL. The guest
 * reports later failures in TREE_DONE. */
struct file_pipe *file_pipe_end(struct file_pipe *p);
/* Processes a later answer of the file call. Fails with the error of the guest. May call
 * on_ready. */
MUST_USE int file_pipe_answer(struct file_pipe *p, const struct guest_answer *a, struct err *e);
/* Returns the number of bytes; 0: end of stream (read); -EAGAIN: call file_pipe_wait; -EPIPE: the
 * reader is gone (write). */
MUST_USE ssize_t file_pipe_read(struct file_pipe *p, void *out, size_t n);
MUST_USE ssize_t file_pipe_write(struct file_pipe *p, const void *bytes, size_t n);
/* Calls on_ready once, from the loop, when a read or write can make progress. */
void file_pipe_wait(struct file_pipe *p);
