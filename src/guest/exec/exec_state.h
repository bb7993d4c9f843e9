/* exec_state — the states of an exec in the guest: one enum per aspect, one setter per enum.
 *
 * The setters are the only code that assigns these enums. Each setter asserts that its table allows the
 * transition; a state is never set to itself. An object starts in the first state of each enum. */
#pragma once

/* The exec as the daemon sees it. Replies say "running" before EXITED and "exited" from then on.
 *
 *   STARTING → RUNNING → DRAINING → RECORDING → EXITED → FREED
 *            ↘ RECORDING (not started)                 ↘ LINGERING → FREED */
enum exec_life {
    EXEC_STARTING, /* the `exec` request is in progress; the exec is in no list yet */
    EXEC_RUNNING,  /* the guest has not collected the exit of the leader */
    EXEC_DRAINING, /* the leader exited; the guest kills the descendants and reads the pipes empty */
    EXEC_RECORDING, /* the guest waits for nothing but the disk, and then writes the status file */
    EXEC_EXITED,    /* the exit is on disk; the guest remembers the exec until `done` */
    EXEC_LINGERING, /* `done` came, but descendants still hold the output pipes */
    EXEC_FREED,     /* the loop frees the memory at the end of the turn */
    EXEC_LIFE_COUNT
};

/* Which processes of the exec may exist.
 *
 *   NONE → LEADER → DESCENDANTS → NONE, with LEADER → REPORTED → DESCENDANTS under a shepherd */
enum exec_processes {
    PROCESSES_NONE,        /* not started, or known to be gone */
    PROCESSES_LEADER,      /* the leader, and what it started */
    PROCESSES_REPORTED,    /* the shepherd reported the leader's exit and has not reaped it yet */
    PROCESSES_DESCENDANTS, /* the leader is reaped; descendants may be left */
    PROCESSES_COUNT
};

/* Why the guest ends the exec. OUTPUT_LIMIT wins over TIMEOUT.
 *
 *   NONE → TIMEOUT → OUTPUT_LIMIT, NONE → OUTPUT_LIMIT */
enum exec_cause {
    CAUSE_NONE,         /* the exec ends by itself, by a signal, or with the guest */
    CAUSE_TIMEOUT,      /* timeout_ms elapsed */
    CAUSE_OUTPUT_LIMIT, /* the output reached its cap; further output is discarded */
    CAUSE_COUNT
};

/* Whether the guest sent SIGKILL, and to whom. Distinguishes this from a kill by the kernel.
 *
 *   NONE → LEADER, NONE → DESCENDANTS */
enum exec_kill {
    KILL_NONE,
    KILL_LEADER,      /* sent while the leader was alive */
    KILL_DESCENDANTS, /* sent only after the leader exited */
    KILL_COUNT
};

/* The guest's end of one output pipe, or of the terminal.
 *
 *   CLOSED → OPEN ⇄ PARKED, OPEN → CLOSED, PARKED → CLOSED */
enum exec_stream {
    STREAM_CLOSED, /* never opened, or at its end */
    STREAM_OPEN,   /* the stream is in the event loop */
    STREAM_PARKED, /* hung up while reading was blocked: out of the loop, with bytes left to read */
    STREAM_STATE_COUNT
};

/* Whether the output logs take more bytes.
 *
 *   WRITABLE ⇄ FULL → LOSSY */
enum exec_disk {
    DISK_WRITABLE, /* no bytes are held */
    DISK_FULL,     /* bytes are held; the program waits, and the guest retries */
    DISK_LOSSY, /* the leader exited and the disk stayed full: bytes that do not fit become a gap */
    DISK_COUNT
};

/* The input of the exec.
 *
 *   OPEN → CLOSING → CLOSED, OPEN → BROKEN → CLOSING, OPEN → CLOSED, BROKEN → CLOSED */
enum exec_stdin {
    STDIN_OPEN,
    STDIN_CLOSING, /* the daemon closed it; buffered bytes still go to the program */
    STDIN_CLOSED,
    STDIN_BROKEN, /* the program closed its end; the daemon did not */
    STDIN_COUNT
};

void exec_state_set_life(enum exec_life *at, enum exec_life to);
void exec_state_set_processes(enum exec_processes *at, enum exec_processes to);
void exec_state_set_cause(enum exec_cause *at, enum exec_cause to);
void exec_state_set_kill(enum exec_kill *at, enum exec_kill to);
void exec_state_set_stream(enum exec_stream *at, enum exec_stream to);
void exec_state_set_disk(enum exec_disk *at, enum exec_disk to);
void exec_state_set_stdin(enum exec_stdin *at, enum exec_stdin to);
