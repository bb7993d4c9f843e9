/* env — the loop, limits, directories, drivers and store that all objects of core share.
 *
 * Owner:   the registry. The daemon fills in the first part and passes it to registry_open, which
 *          copies it and fills in the rest. All other code only reads it.
 * Jobs:    a request whose reply needs its object counts as a job. The registry closes after the
 *          last job has ended. */
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
    /* Outlives the registry, because a thread may still wait for a disk. */
    struct file_turns *file_turns;
    const struct limits *limits;
    int state_dir_fd; /* borrowed from the daemon */
    /* STATE/sandboxes, borrowed; it has one directory per sandbox, with output and logs. */
    int sandboxes_fd;
    const char *run_id;
    const char *version;
    bool host_was_rebooted;
    struct driver *drivers[ENV_DRIVERS_MAX]; /* all are open; the default driver is the first */
    size_t n_drivers;                        /* 0: bermd cannot create sandboxes */
    const char *no_driver;                   /* the reason for n_drivers == 0, for error messages */
    struct opener *opener;                   /* NULL: sandboxes cannot import host paths */
    const char *no_opener;                   /* the reason for opener == NULL, for error messages */
    int64_t token_uid; /* uid whose rights token callers have on host paths; -1: they have none */
    void *user;

    /* The registry fills in the members below. */
    struct db *db;
    struct ledger *ledger;
    bool is_recovered;       /* recovery has processed every record */
    bool recovery_timed_out; /* recovery no longer waits for guests */
    unsigned n_lost_execs;   /* execs that became LOST during recovery */
    bool is_closing;
    unsigned n_jobs;
    void (*on_idle)(struct env *env); /* called while closing, when the last job has ended */
};

/* Returns the driver of that name, or the default driver for an empty name. NULL: no such driver is
 * loaded. */
struct driver *env_driver(const struct env *env, const char *name);
/* Returns the i-th driver; the default driver is the first. NULL after the last. */
struct driver *env_driver_at(const struct env *env, size_t i);
void env_job_begin(struct env *env);
/* Ends a job. Returns true when the registry is closing; the object of the job may then already be
 * freed. */
bool env_job_end(struct env *env);
/* Makes a random id: the prefix ("sb-", "ex-") and 20 characters of a-z2-7. */
void env_make_id(const char *prefix, char ret_id[64]);
