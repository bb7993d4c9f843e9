/* env — what all objects of core share: the loop, limits, directories, drivers and the store.
 *
 * Owner:   the registry. The daemon fills in the first part and gives it to registry_open, which copies it
 *          and fills in the rest. Everybody else borrows it and only reads it.
 * Jobs:    a request whose reply needs its object counts as a job. Closing waits until none is left. */
#pragma once

#include <uv.h>

#include "base/limits.h"
#include "core/caller.h"
#include "core/driver.h"
#include "core/ledger.h"
#include "loop/deadline.h"

struct file_turns;
struct opener;

#define ENV_DRIVERS_MAX 4

struct env {
    uv_loop_t *loop;
    struct deadlines *deadlines;
    struct file_turns *file_turns; /* outlive the registry: a thread may still wait for a disk */
    const struct limits *limits;
    int state_dir_fd; /* borrowed */
    int sandboxes_fd; /* STATE/sandboxes, borrowed: a directory per sandbox with output and guest.log */
    const char *run_id;
    const char *version;
    bool host_was_rebooted;
    struct driver *drivers[ENV_DRIVERS_MAX]; /* open, the default first */
    size_t n_drivers;                        /* 0: sandboxes cannot be created */
    const char *no_driver;                   /* why there is none, for people */
    struct opener *opener;                   /* NULL: no host path goes in */
    const char *no_opener;                   /* why, for people */
    int64_t token_uid; /* whose rights on host paths callers by token have; -1 = nobody's */
    void *user;

    /* The registry's part. */
    struct db *db;
    struct ledger *ledger;
    bool is_recovered;       /* every record was brought as far as a restart can */
    bool recovery_timed_out; /* recovery no longer waits for guests */
    unsigned n_lost_execs;   /* found during recovery */
    bool is_closing;
    unsigned n_jobs;
    void (*on_idle)(struct env *env); /* it is closing, and the last job has ended */
};

/* By its name, or the default one for an empty name. NULL: no such driver is loaded. */
struct driver *env_driver(const struct env *env, const char *name);
/* In order, the default first; NULL after the last. */
struct driver *env_driver_at(const struct env *env, size_t i);
void env_job_begin(struct env *env);
/* True: everything is being closed, and the job's object may be gone from here on. */
bool env_job_end(struct env *env);
/* A fresh id with this prefix ("sb-", "ex-"): 20 characters of a-z2-7. */
void env_make_id(const char *prefix, char ret_id[64]);
