/* exec_output — moves what an exec writes from its pipes or terminal into its logs.
 *
 * Owner:  its exec.   States: enum exec_stream for each stream, enum exec_disk for the logs.
 * Bounds: the policy of the exec: at most limit_bytes in the logs (drop_oldest, kill) or at most
 *         granted_bytes ever written (block). At most GUEST_SCRATCH bytes are held while the disk is full.
 * Errors: INVALID_ARGUMENT, OFFSET_BEYOND_END, EXEC_NOT_FOUND.
 * None of these functions frees the exec. exec_output_skip may end it (exec_end_check). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/outlog.h"
#include "guest/exec/exec_state.h"
#include "guest/loop.h"

struct exec;
struct request;

enum exec_output_id { EXEC_STDOUT, EXEC_STDERR, EXEC_OUTPUTS };
enum exec_policy { POLICY_DROP_OLDEST, POLICY_BLOCK, POLICY_KILL };

/* The guest's side of stdout or stderr. */
struct exec_output_stream {
    struct exec *exec;
    enum exec_stream state;
    struct source source; /* the read end of the pipe, or the terminal; fd -1 unless OPEN */
    int parked;           /* the descriptor while PARKED, else -1 */
    int write_end; /* kept open until the leader exits, so that SIGCHLD alone reports the exit and
                           * no hangup of a pipe wakes the guest as well; -1: none */
};

struct exec_output {
    struct exec_output_stream streams[EXEC_OUTPUTS];
    struct outlog logs[EXEC_OUTPUTS];
    size_t n_logs;
    bool owns_logs; /* the request passed no log files, so `read_output` reads the guest's own */
    enum exec_policy policy;
    uint64_t limit_bytes;
    uint64_t granted_bytes;
    enum exec_disk disk;
    struct buf held; /* bytes read from a pipe that the disk has not taken */
    enum exec_output_id held_for;
    struct timer retry;
};

void exec_output_init(struct exec_output *out);
/* Closes streams and logs. */
void exec_output_done(struct exec *x);
/* Adds the read end of a pipe, or the terminal, to the loop. Takes ownership of a pipe, but not of
 * the terminal, which exec.terminal owns. On failure (-errno) the caller still owns the pipe. */
MUST_USE int exec_output_open(struct exec *x, enum exec_output_id id, int fd);
void exec_output_close(struct exec_output_stream *s);
/* Closes the guest's copies of the write ends. */
void exec_output_close_write_ends(struct exec *x);
/* Returns whether both streams are at their end. */
bool exec_output_is_closed(const struct exec *x);
/* Returns whether bytes wait for disk space. */
bool exec_output_is_held(const struct exec *x);
/* Returns whether no output may be read now: the disk is full, or the block policy grants no
 * more. */
bool exec_output_is_blocked(const struct exec *x);
/* Reads what is in the pipes now, without waiting. */
void exec_output_drain(struct exec *x);
/* From now on, bytes that do not fit on the disk become a gap in the log. Call while bytes are
 * held. */
void exec_output_skip(struct exec *x);

int exec_output_method_grant(struct request *r, struct err *e);
int exec_output_method_read(struct request *r, struct err *e);
