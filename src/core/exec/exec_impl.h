/* exec_impl — the fields of an exec, for core/exec alone. */
#pragma once

#include "base/buf.h"
#include "base/outlog.h"
#include "core/exec/exec.h"
#include "core/exec/exec_state.h"
#include "core/exec/execs.h"

/* A reader under the BLOCK policy. */
struct exec_reader {
    char name[68];            /* empty: identified by its watch */
    struct exec_watch *watch; /* NULL: detached */
    uint64_t acked[EXEC_STREAMS];
    uint64_t held_until_us; /* 0 = attached */
};

/* Output that is copied from the guest; all 0 where the guest writes into our files. See exec_fetch.c. */
struct exec_fetch {
    struct guest_wait wait;
    struct deadline retry;
    uint64_t reported[EXEC_STREAMS]; /* sizes of the guest's logs, as it says */
    uint64_t end[EXEC_STREAMS];      /* of our files */
    unsigned stream;                 /* asked for last */
    unsigned n_retries;              /* of a write to our file */
    bool is_broken;                  /* the rest cannot be had */
    struct buf status; /* the line for our status file, once the guest has reported the exit */
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
    enum exec_phase phase;               /* exec_set_phase */
    enum exec_cgroup_state cgroup_state; /* exec_set_cgroup */
    uint32_t cgroup;                     /* number of its exec cgroup; 0 = none */
    int cgroup_fd;                       /* in CGROUP_READY, else -1 */
    bool cgroup_is_dir;
    Berm__V1__ExitStatus *exit; /* in ENDING: until it may be reported */
    uint64_t max_rss_bytes;     /* as the guest reported with the exit; 0 = it did not */
    uint64_t started_us;        /* clock_us(); 0 = before this run */
    int caller_signal;          /* the last one a caller sent */
    struct guest_wait start_wait;
    struct list watches;
    struct list asks;
    struct deadline again; /* retry: the store failed */
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
    uint64_t kept;      /* bytes, when last counted */
    /* input that came with the start */
    uint8_t *input;
    size_t n_input;
    struct guest_wait input_wait;
};

#define EXEC_STARTING BERM__V1__EXEC_STATE__EXEC_STATE_STARTING
#define EXEC_RUNNING BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING
#define EXEC_EXITED BERM__V1__EXEC_STATE__EXEC_STATE_EXITED
#define EXEC_LOST BERM__V1__EXEC_STATE__EXEC_STATE_LOST

/* execs.c: of the instance that a reply of the driver is about */
struct execs *execs_of(const struct instance *p);

/* exec.c */
/* Frees it and takes it out of every list; watchers are woken a last time. */
void exec_drop(struct exec *x);
/* Lets the end of the turn free it when it has ended and nobody watches it. */
void exec_settle_idle(struct exec *x);
void exec_wake(struct exec *x);
bool exec_is_running(const struct exec *x);

/* exec_start.c: asks the guest once the intent is durable, the cgroup is there and the guest takes execs */
void exec_go(struct exec *x);

/* exec_cgroup.c: takes the cgroup created ahead, or requests one */
void exec_cgroup_take(struct exec *x);
void exec_cgroup_request(struct exec *x);
/* For an exec that will never run. */
void exec_cgroup_return(struct exec *x);
/* Requests one for the next exec, unless there is one. */
void execs_cgroup_make_ahead(struct execs *set);
void execs_cgroup_init(struct execs *set);
/* Also when the instance, with all its cgroups, is gone. */
void execs_cgroup_done(struct execs *set);
/* Removes what the last daemon left; called for each exec of that time, the newest first. */
void execs_cgroup_sweep(struct execs *set, const struct db_exec *row);

/* exec_exit.c */
/* The guest could not start it. */
void exec_not_started(struct exec *x, const struct err *e);
/* Reads usage from its cgroup, if there is one. */
void exec_read_usage(struct exec *x);
void exec_record_exit(struct exec *x);
/* Its output is complete, as far as it can be had: an exit that waited for it is reported. */
void exec_on_fetched(struct exec *x);

/* exec_fetch.c */
void exec_fetch_init(struct exec *x);
void exec_fetch_done(struct exec *x);
/* The guest keeps the logs of this program. Only after the link's hello. */
bool exec_fetch_is_used(const struct exec *x);
bool exec_fetch_is_complete(const struct exec *x);
/* The guest says how large its logs are: copies what is missing. */
void exec_fetch_note(struct exec *x, const uint64_t sizes[EXEC_STREAMS]);
/* The guest reports the exit: keeps its words, for exec_fetch_write_status. */
void exec_fetch_keep_status(struct exec *x, const struct guest_exec_state *state);
/* Before the exit is reported: it survives bermd and the guest from here on. */
void exec_fetch_write_status(struct exec *x);
/* The link is up: goes on with what is missing. */
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
/* Removes the files of an exec whose record is forgotten. */
void exec_remove_files(struct execs *set, const char *id);

/* exec_output_cap.c */
int64_t exec_cap(const struct exec *x); /* its own, or what is left of its sandbox's */
void exec_count_output(struct exec *x);
/* Drops the oldest of an output that is copied from the guest, where its policy says so. */
void exec_output_hold_cap(struct exec *x);

/* exec_readers.c */
void exec_readers_init(struct exec *x);
void exec_readers_done(struct exec *x);
/* Named readers keep their position across a restart. */
void exec_readers_restore(struct exec *x);

/* exec_input.c */
void exec_give_input(struct exec *x);
/* Keeps the input that came with the start in a file, so that it survives the daemon. */
MUST_USE int exec_keep_input(struct exec *x, struct str data, struct err *e);
void exec_restore_input(struct exec *x);
void exec_forget_input(struct exec *x);
void exec_asks_cancel(struct exec *x);
