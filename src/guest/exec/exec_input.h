/* exec_input — the input of an exec, addressed by byte offset.
 *
 * Owner:  its exec.   States: enum exec_stdin.
 * Bounds: EXEC_INPUT_WINDOW bytes that the program has not read.
 * Errors: STDIN_CLOSED, STDIN_OFFSET, EXEC_ENDED, EXEC_NOT_FOUND.
 * None of these functions frees the exec, so every callback may call them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "guest/exec/exec_state.h"
#include "guest/loop.h"

#define EXEC_INPUT_WINDOW 65536

struct exec;
struct request;

struct exec_input {
    enum exec_stdin state;
    struct source pipe; /* write end of the stdin pipe; unused when the exec has a terminal */
    struct buf bytes;
    uint64_t next_offset; /* offset after the last accepted byte */
    char last;            /* the last accepted byte */
};

void exec_input_init(struct exec_input *in);
/* Closes the pipe and drops buffered bytes. Idempotent. */
void exec_input_close(struct exec *x);
/* Adds the write end of the stdin pipe to the loop and takes ownership of it. On failure (-errno)
 * the caller still owns it. */
MUST_USE int exec_input_open(struct exec *x, int fd);
/* Writes buffered bytes to the program. `notify`: report the free window to the daemon. */
void exec_input_push(struct exec *x, bool notify);

int exec_input_method_stdin(struct request *r, struct err *e);
int exec_input_method_close(struct request *r, struct err *e);
