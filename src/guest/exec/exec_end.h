/* exec_end — how an exec ends: timeout, kill, the leader's exit, drained pipes, the status file.
 *
 * Owner:  its exec.   States: enum exec_life from RUNNING on, exec_processes, exec_cause and exec_kill.
 * Order:  the guest collects the leader's exit, kills the descendants, reads the pipes empty, writes the
 *         status file and only then reports `exited`, exactly once.
 * Bounds: DRAIN_ROUNDS waits of DRAIN_MS for killed processes, for pipes that others hold open, and for a
 *         full disk. Without disk space for the status file the exec stays RECORDING.
 * exec_end_check and exec_end_kill may be called from every callback; neither frees memory at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "guest/loop.h"

struct exec;
struct execs;

enum exec_exit_kind {
    EXIT_CODE,
    EXIT_SIGNAL,
    EXIT_TIMED_OUT,
    EXIT_OUT_OF_MEMORY,
    EXIT_OUTPUT_LIMIT,
    EXIT_NOT_STARTED
};

struct exec_exit {
    enum exec_exit_kind kind;
    int value;              /* exit code or signal number */
    struct err not_started; /* the reason for EXIT_NOT_STARTED */
    uint64_t unix_ms;       /* time of the exit; 0: not decided yet */
};

/* Used by exec_end.c only, except grace_ms and status_fd, which exec_start.c sets. */
struct exec_end {
    struct timer timeout;
    uint64_t grace_ms;
    struct timer kill; /* expires at the end of the grace period, then for each repeated SIGKILL */
    uint64_t kill_delay_ms;
    struct source report; /* the shepherd's pipe */
    int wait_status;
    struct timer drain;
    unsigned drain_rounds; /* how often `drain` expired */
    unsigned full_rounds;  /* how often the disk was full when `drain` expired */
    int status_fd;         /* -1: none */
};

/* One reaped child of the guest. */
struct exec_child {
    pid_t pid;
    pid_t session;
    int wait_status;
    uint64_t max_rss_bytes; /* peak memory of the largest process: the child or one it reaped */
    bool is_last;           /* the guest has no other child, so no process is left below it */
};

void exec_end_init(struct exec_end *end);
void exec_end_done(struct exec *x);
/* Reads the shepherd's reports from the pipe `fd` and takes ownership of fd. */
void exec_end_watch_report(struct exec *x, int fd);
/* Starts the timeout of the exec. A timeout_ms below 1 means no timeout. */
void exec_end_start_timeout(struct exec *x, int64_t timeout_ms);

/* Records that the guest sent SIGKILL, so that the exit does not count as an out-of-memory kill. */
void exec_end_mark_killed(struct exec *x);
/* Sends SIGKILL to every process of the exec, and repeats it until no process is left. */
void exec_end_kill(struct exec *x);
/* Advances an exec whose leader has exited as far as pipes, processes and disk allow. */
void exec_end_check(struct exec *x);
/* Records the exit of an exec that could not start. The reply to `exec` reports it. */
void exec_end_unstarted(struct exec *x, const struct err *why);

/* Call for each reaped child: a leader, a shepherd, or a process that a leader left behind. */
void exec_end_on_child(struct execs *all, const struct exec_child *child);
/* Call after the last reaped child. `is_childless`: the guest has no child left. */
void exec_end_check_all(struct execs *all, bool is_childless);
/* Sends SIGTERM to every exec when grace_ms > 0, and SIGKILL after the grace period. */
void exec_end_all(struct execs *all, uint64_t grace_ms);
