/* exec — programs: started once by id, their output kept, their exit written down before it is told.
 *
 * Owner:  struct execs; an exec lives from `exec` to `done`, and a turn longer.
 * States: RUNNING → ENDING (the leader is gone, or its time is over: the tree is being killed and the
 *         pipes drained) → EXITED, exactly once.
 * Bounds: EXECS_MAX remembered, EXECS_RUNNING_MAX at once; STDIN_WINDOW bytes of input held; output by
 *         the policy of each.
 * Files:  exec.c the life, exec_start.c the request, exec_output.c pipe → log, exec_stdin.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/outlog.h"
#include "guest/loop.h"
#include "guest/exec/tree.h"

#define EXECS_MAX 4096
#define EXECS_RUNNING_MAX 1024
#define EXEC_ID_MAX 48
#define STDIN_WINDOW 65536
#define GRACE_DEFAULT_MS 5000
#define GRACE_MAX_MS 60000

struct guest;
struct request;

enum exec_state { EXEC_RUNNING, EXEC_ENDING, EXEC_EXITED };
enum exec_exit {
    EXIT_CODE,
    EXIT_SIGNAL,
    EXIT_TIMED_OUT,
    EXIT_OUT_OF_MEMORY,
    EXIT_OUTPUT_LIMIT,
    EXIT_NOT_STARTED
};
enum exec_policy { POLICY_DROP_OLDEST, POLICY_BLOCK, POLICY_KILL };
enum exec_stream { STREAM_STDOUT, STREAM_STDERR, STREAM_COUNT };

struct exec_out {
    struct exec *exec;
    struct source source; /* pipe's end or terminal; fd -1: at its end, or there is none */
    bool is_open;
    int their_end; /* ours too while the leader lives, so that its end is told once, by the kernel's SIGCHLD,
                    * and not by every pipe as well; -1: none */
    int parked; /* the fd while it is out of the loop: full, and nobody writes; else -1 */
};

struct exec {
    struct list node; /* execs.all, by age */
    struct later grave;
    struct guest *guest;
    char id[EXEC_ID_MAX + 1];
    enum exec_state state;
    bool is_forgotten; /* `done` came while descendants still hold the pipes */

    struct tree tree;
    pid_t session; /* the leader's: what it left is still of it, unless it made one of its own */
    uint64_t max_rss_bytes; /* the largest process of this program that was reaped */
    struct source report;   /* the shepherd's */
    bool keep_descendants;
    int64_t signal_numbers[16]; /* the last ones sent, by the daemon's own numbers; 0 = none */
    unsigned next_signal;
    bool kill_asked; /* SIGKILL was sent by the guest */
    bool was_killed; /* and that while the leader lived: not the kernel's doing */
    uint64_t kill_again_ms;
    int wait_status;
    bool has_status; /* the shepherd told it, and not yet whether others are left */
    bool is_alone;   /* the guest has no child left: nobody has to be looked for */

    int terminal; /* the master side; -1: none */
    struct exec_out out[STREAM_COUNT];
    struct outlog log[STREAM_COUNT];
    size_t n_logs;
    bool own_logs; /* no descriptors came: kept here, read by read_output */
    enum exec_policy policy;
    uint64_t limit_bytes;
    uint64_t granted_bytes;
    bool is_full;    /* KILL reached its cap */
    struct buf held; /* read, and not yet in the log: its disk is full */
    enum exec_stream held_for;
    bool skips; /* it has ended and the disk stays full: what does not fit is lost, and a gap */
    struct timer retry;

    struct source in; /* the pipe's end; a terminal's is `terminal` */
    struct buf in_bytes;
    uint64_t in_next; /* offset after the last byte taken */
    bool in_closed;   /* no more will be taken */
    bool in_gone;     /* the program closed its end */
    char in_last;     /* for a terminal's end of file */

    struct timer timeout;
    struct timer kill;  /* end of the grace time; then, kills repeated */
    struct timer drain; /* pipes that stay open after the end */
    bool is_drained;    /* what they hold has been taken, as far as it may be */
    unsigned drains;    /* how often the time for that was over */
    unsigned fulls;     /* how often the log had still no room then */
    uint64_t grace_ms;
    bool is_timed_out;

    int status_fd;
    enum exec_exit exit;
    int exit_value;
    struct err not_started;
    uint64_t started_unix_ms;
    uint64_t exited_unix_ms;

    bool tell_grew, tell_exited, tell_room;
};

struct execs {
    struct guest *guest;
    struct list all;
    struct list forgotten; /* done, but what they left still writes into their pipes */
    size_t count;
    size_t running;
    struct exec *
        spare; /* memory of the last one freed: for a quick program getting it is dear; NULL: none */
    uint64_t ignored; /* signals, for launch; known once a program was started */
};

void execs_init(struct execs *x, struct guest *g);
void execs_done(struct execs *x);
struct exec *execs_find(struct execs *x, struct str id);
/* A child of the guest ended: a leader, a shepherd, or what a leader left behind. */
struct child_end {
    pid_t pid;
    pid_t session;
    int wait_status;
    uint64_t max_rss_bytes; /* of the largest one among it and all it waited for */
    bool is_last;           /* the guest has no child left, so nobody is below it at all */
};
void execs_on_child(struct execs *x, const struct child_end *end);
/* After the last of them: which programs may now be told as exited. */
void execs_check_ends(struct execs *x, bool is_childless);
/* Writes notifications that are due; as many as the link takes. */
void execs_tell(struct execs *x);
/* SIGTERM to all when grace_ms > 0, else SIGKILL. */
void execs_end_all(struct execs *x, uint64_t grace_ms);
/* The `execs` list of hello and status, from after `after`, as much as fits; then `more`. */
void execs_write(struct execs *x, struct json_out *o, struct exec *only, struct exec *after);
/* The state's members alone, into an object that is open. */
void exec_write_members(const struct exec *x, struct json_out *o);
void exec_write_state(const struct exec *x, struct json_out *o);

/* Handlers of methods.c. */
int exec_method_exec(struct request *r, struct err *e);
int exec_method_status(struct request *r, struct err *e);
int exec_method_done(struct request *r, struct err *e);
int exec_method_grant(struct request *r, struct err *e);
int exec_method_signal(struct request *r, struct err *e);
int exec_method_resize(struct request *r, struct err *e);
int exec_method_stdin(struct request *r, struct err *e);
int exec_method_close_stdin(struct request *r, struct err *e);
int exec_method_read_output(struct request *r, struct err *e);

/* Between the files of exec. */
struct exec *exec_new(struct guest *g, struct str id);
void exec_free(struct exec *x);
void exec_register(struct exec *x);
/* EXEC_NOT_FOUND, by the request's exec_id. */
MUST_USE int exec_of_request(struct request *r, struct exec **ret, struct err *e);
void exec_ended_unstarted(struct exec *x, const struct err *why);
/* Kills the tree and goes on until it is empty. */
void exec_kill(struct exec *x);
/* Looks whether the program may now be told as exited. */
void exec_check_end(struct exec *x);
MUST_USE int exec_out_open(struct exec *x, enum exec_stream which, int fd);
void exec_out_close(struct exec_out *o);
/* Takes what is in the pipes now, without waiting. */
void exec_out_drain(struct exec *x);
/* From here on nothing waits for room in a log. */
void exec_out_skip(struct exec *x);
void exec_out_resume(struct exec *x);
bool exec_out_is_blocked(const struct exec *x);
void exec_out_on_retry(struct timer *t);
MUST_USE int exec_in_open(struct exec *x, int fd);
void exec_in_close(struct exec *x);
void exec_in_push(struct exec *x, bool tell);
