/* file_pipe — our end of a pipe to a guest's child: bytes of a tree, without ever waiting in a call.
 *
 * Where the guest passed no descriptor the pipe is in the guest, and chunks go to and fro, one at a time; its
 * owner then hands on the answers. Bounds: one chunk.
 *
 * Owner:   whoever opened it.        Ends: file_pipe_close, also from inside on_ready.
 * The other end may be anybody's, and so may be the flags of this one: each call says by itself that it
 * does not wait. */
#pragma once

#include "core/files/files.h"

struct file_pipe;

/* Takes the pipe out of the answer to PACK (O_RDONLY) or UNPACK (O_WRONLY). NULL: no memory. */
struct file_pipe *file_pipe_open(struct file_call *f, const struct guest_answer *a, int access,
                                 void (*on_ready)(void *user), void *user);
void file_pipe_close(struct file_pipe *p);
/* Everything was written. Returns the pipe while the guest has yet to hear it, to be closed later; else NULL. What
 * goes wrong there is the guest's to tell. */
struct file_pipe *file_pipe_end(struct file_pipe *p);
/* Hands on a later answer of the file call. Fails with the error of the guest. May call on_ready. */
MUST_USE int file_pipe_answer(struct file_pipe *p, const struct guest_answer *a, struct err *e);
/* The count, 0 at the end (read), -EAGAIN: wait; -EPIPE: nobody reads any more (write). */
MUST_USE ssize_t file_pipe_read(struct file_pipe *p, void *out, size_t n);
MUST_USE ssize_t file_pipe_write(struct file_pipe *p, const void *bytes, size_t n);
/* on_ready comes once, from the loop, when the next read or write does something. */
void file_pipe_wait(struct file_pipe *p);
