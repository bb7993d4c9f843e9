/* exec_impl — the fields of an exec; only core/exec includes it. */
#pragma once

#include "base/buf.h"
#include "base/outlog.h"
#include "core/exec/exec.h"
#include "core/exec/exec_state.h"
#include "core/exec/execs.h"

/* A reader under the BLOCK policy. */
struct exec_reader {
    char name[68];            /* empty: identified by its watch */
    struct exec_watch *watch; /* NULL: the reader is detached */
    uint64_t acked[EXEC_STREAMS];
    uint64_t held_until_us; /* when a detached reader expires; 0 = attached */
};

/* Output that bermd copies from the guest; all 0 if the guest writes to bermd's files. See
 * exec_fetch.c. */
struct exec_fetch {
    struct guest_wait wait;
    struct deadline retry;
    uint64_t reported[EXEC_STREAMS]; /* sizes of the guest's logs, as the guest reports them */
    uint64_t end[EXEC_STREAMS];      /* sizes of bermd's files */
    unsigned stream;                 /* the stream of the last request */
    unsigned n_retries;              /* consecutive failed writes to bermd's file */
    bool is_broken;                  /* the rest of the output is lost */
    struct buf status; /* contents of bermd's status file; set when the guest reports the exit */
};

struct exec {
    struct map_node by_id;
    struct list in_set;
    struct list in_idle;
    struct env *env;
    struct exec_table *table;
    struct execs *set; /* NULL: its sandbox is gone */
    struct recorded recorded;
    Berm__V1__Exec *record;
    char *owner;
    uint64_t number;
    enum exec_phase phase;               /* set with exec_set_phase */
    enum exec_cgroup_state cgroup_state; /* set with exec_set_cgroup */
    uint32_t cgroup;                     /* number of its exec cgroup; 0 = none */
    int cgroup_fd; /* descriptor of the exec cgroup in CGROUP_READY, else -1 */
    bool cgroup_is_dir;
    Berm__V1__ExitStatus *exit; /* in PHASE_ENDING: the exit, which is not reported yet */
    uint64_t max_rss_bytes;     /* from the guest's report of the exit; 0 = unknown */
    uint64_t started_us;        /* clock_us() at the start; 0 = not started by this daemon */
    int caller_signal;          /* the last signal that a caller sent; 0 = none */
    struct guest_wait start_wait;
    struct list watches;
    struct list asks;
    struct deadline again; /* when to record the exit again after the store failed */
    /* output */
    int log_fds[EXEC_STREAMS]; /* for reading; -1 = not open */
    struct outlog_view views[EXEC_STREAMS];
    struct exec_fetch fetch;
    struct exec_reader *readers;
    size_t n_readers;
    uint64_t granted_bytes;
    struct deadline reader_hold;
    bool cap_is_reported;
    bool is_over_limit; /* killed because the sandbox is at its output limit */
    uint64_t kept;      /* bytes of output on disk, when last counted */
    /* input from the start request */
    uint8_t *input;
    size_t n_input;
    struct guest_wait input_wait;
};

#define EXEC_STARTING BERM__V1__EXEC_STATE__EXEC_STATE_STARTING
#define EXEC_RUNNING BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING
#define EXEC_EXITED BERM__V1__EXEC_STATE__EXEC_STATE_EXITED
#define EXEC_LOST BERM__V1__EXEC_STATE__EXEC_STATE_LOST

/* execs.c: the execs of the sandbox that owns this instance */
struct execs *execs_of(const struct instance *p);

/* exec.c */
/* Wakes the watchers a last time and frees the exec. */
void exec_drop(struct exec *x);
/* If the exec has ended and has no watchers, marks it to be freed at the end of the loop turn. */
void exec_settle_idle(struct exec *x);
void exec_wake(struct exec *x);
bool exec_is_running(const struct exec *x);

/* exec_start.c: sends the start to the guest when the intent is durable, the cgroup exists and the
 * guest accepts execs */
void exec_go(struct exec *x);

/* exec_cgroup.c: takes the cgroup that was created ahead, or requests a new cgroup */
void exec_cgroup_take(struct exec *x);
void exec_cgroup_request(struct exec *x);
/* Releases the cgroup of an exec that will never run. */
void exec_cgroup_return(struct exec *x);
/* Requests a cgroup for the next exec, unless one already exists. */
void execs_cgroup_make_ahead(struct execs *set);
void execs_cgroup_init(struct execs *set);
/* Forgets the cgroup that was created ahead. Call this also when the instance and all its cgroups
 * are gone. */
void execs_cgroup_done(struct execs *set);
/* Removes the cgroups that the last daemon left. Call it for each exec of that daemon, the newest
 * first. */
void execs_cgroup_sweep(struct execs *set, const struct db_exec *row);

/* exec_exit.c */
/* Records as the exit that the guest could not start the program. */
void exec_not_started(struct exec *x, const struct err *e);
/* Reads the usage from the exec cgroup, if the exec has one. */
void exec_read_usage(struct exec *x);
void exec_record_exit(struct exec *x);
/* Call this when the copy of the output has ended, complete or broken. Reports an exit that waited
 * for the copy. */
void exec_on_fetched(struct exec *x);

/* exec_fetch.c */
void exec_fetch_init(struct exec *x);
void exec_fetch_done(struct exec *x);
/* Returns whether the guest keeps the logs of this exec. Call it only after the link's hello. */
bool exec_fetch_is_used(const struct exec *x);
bool exec_fetch_is_complete(const struct exec *x);
/* Call this when the guest reports the sizes of its logs. Copies the missing part. */
void exec_fetch_note(struct exec *x, const uint64_t sizes[EXEC_STREAMS]);
/* Call this when the guest reports the exit. Keeps the report for exec_fetch_write_status. */
void exec_fetch_keep_status(struct exec *x, const struct guest_exec_state *state);
/* Writes the status file before the exit is reported, so that the exit survives bermd and the
 * guest. */
void exec_fetch_write_status(struct exec *x);
/* Call this when a new link is up. Continues the copy. */
void exec_fetch_resume(struct exec *x);

/* exec_output.c */
void exec_close_logs(struct exec *x);
enum exec_file {
    EXEC_FILE_STDOUT,
    EXEC_FILE_STDERR,
    EXEC_FILE_STATUS,
    EXEC_FILE_INPUT,
    EXEC_FILE_READERS
};
void exec_log_name(const struct exec *x, enum exec_file which, char *out, size_t cap);
void exec_fill_output(struct exec *x);
/* Removes the files of an exec whose record was deleted. */
void exec_remove_files(struct execs *set, const char *id);

/* exec_output_cap.c */
/* Returns the smaller of the exec's own cap and the sandbox's remaining bytes. */
int64_t exec_cap(const struct exec *x);
void exec_count_output(struct exec *x);
/* Drops the oldest part of copied output that exceeds the cap, if the output policy allows it.
 * False: the guest sent more than the policy allows. */
MUST_USE bool exec_output_hold_cap(struct exec *x);

/* exec_readers.c */
void exec_readers_init(struct exec *x);
void exec_readers_done(struct exec *x);
/* Named readers keep their position across a restart. */
void exec_readers_restore(struct exec *x);

/* exec_input.c */
void exec_give_input(struct exec *x);
/* Writes the input of the start request to a file, so that it survives a restart of the daemon. */
MUST_USE int exec_keep_input(struct exec *x, struct str data, struct err *e);
void exec_restore_input(struct exec *x);
void exec_forget_input(struct exec *x);
void exec_asks_cancel(struct exec *x);
