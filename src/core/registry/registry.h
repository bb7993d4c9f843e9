/* registry — all sandboxes and execs by id, and the environment they share.
 *
 * Owner:   the daemon.              Ends: registry_close, then on_closed from the loop.
 * Restart: registry_open reads the records; registry_recover adopts live instances, finishes or
 *          fails what was half done, sweeps what has no record, and reports through on_recovered;
 *          only then may the daemon listen.
 * Memory:  sandboxes that are not DELETED, and execs that run or that a caller watches; the rest is
 *          read from the store on request. */
#pragma once

#include "base/arena.h"
#include "core/change.h"
#include "core/env.h"

struct registry;
struct sandbox;
struct exec;

MUST_USE int registry_open(const struct env *env, struct registry **ret_r, struct err *e);
/* Starts recovery. on_recovered follows once, from the loop. */
void registry_recover(struct registry *r,
                      void (*on_recovered)(struct registry *r, const struct err *e));
/* Stops every sandbox; on_stopped follows when all are down. For --stop-sandboxes. */
void registry_stop_all(struct registry *r, void (*on_stopped)(struct registry *r));
/* Closes links and frees everything; instances and their execs continue to run. */
void registry_close(struct registry *r, void (*on_closed)(void *user), void *user);

void *registry_user(const struct registry *r);
struct env *registry_env(struct registry *r);
struct ledger *registry_ledger(struct registry *r);
struct deadlines *registry_deadlines(struct registry *r);
const struct limits *registry_limits(const struct registry *r);
/* Returns the driver of that name, or the default driver for an empty name. NULL: no such driver is
 * loaded. */
struct driver *registry_driver(const struct registry *r, const char *name);
/* Returns the i-th driver; the default driver is the first. NULL after the last. */
struct driver *registry_driver_at(const struct registry *r, size_t i);
const char *registry_no_driver(const struct registry *r);
bool registry_has_opener(const struct registry *r);

/* Creates a sandbox. `spec` is checked and has every default filled in; the function copies it. If
 * `id` is empty, the function generates one. *ret_sb may be reverted and freed when c->wait gets an
 * error. */
MUST_USE int registry_create_sandbox(struct registry *r, const char *id,
                                     const Berm__V1__SandboxSpec *spec, const struct change *c,
                                     struct sandbox **ret_sb, struct err *e);

/* Finds a sandbox that is not DELETED; for the others see registry_find_deleted. SANDBOX_NOT_FOUND,
 * also for a sandbox of another owner. */
MUST_USE int registry_find_sandbox(struct registry *r, const struct caller *who, const char *id,
                                   struct sandbox **ret_sb, struct err *e);
/* Returns the last record of a deleted sandbox whose history is kept. The caller frees it with
 * berm__v1__sandbox__free_unpacked. SANDBOX_NOT_FOUND. */
MUST_USE int registry_find_deleted(struct registry *r, const struct caller *who, const char *id,
                                   Berm__V1__Sandbox **ret_record, struct err *e);
/* Finds an exec; reads it from the store if it has ended. EXEC_NOT_FOUND. The exec stays in memory
 * until the next turn of the loop, or longer while it runs or is watched. */
MUST_USE int registry_find_exec(struct registry *r, const struct caller *who, const char *id,
                                struct exec **ret_x, struct err *e);
/* Calls `on` for each sandbox in memory, newest first, until `on` returns false. */
void registry_each_sandbox(struct registry *r, bool (*on)(void *user, struct sandbox *sb),
                           void *user);

/* A record in the store, borrowed for the callback. */
struct registry_row {
    uint64_t number; /* number in order of creation */
    uint32_t state;  /* SandboxState or ExecState */
    struct str sandbox_id;
    struct str record; /* berm.v1.Sandbox or berm.v1.Exec; empty: the store no longer keeps it */
};
typedef bool registry_on_row(void *user, const struct registry_row *row); /* return false to stop */
/* Lists records with a number below `before` (0 = all), newest first. An empty owner means all
 * owners, an empty sandbox_id all sandboxes. STORE_FAILED, STORE_CORRUPT. */
MUST_USE int registry_list_sandboxes(struct registry *r, struct str owner, uint64_t before,
                                     registry_on_row *on, void *user, struct err *e);
MUST_USE int registry_list_execs(struct registry *r, struct str owner, struct str sandbox_id,
                                 uint64_t before, registry_on_row *on, void *user, struct err *e);
/* Lists every exec that has not ended, oldest first. */
MUST_USE int registry_list_running_execs(struct registry *r, registry_on_row *on, void *user,
                                         struct err *e);

/* The stored outcome of an accepted request id, in the caller's arena. */
struct accepted_request {
    struct str object_id; /* NUL-terminated */
    struct str answer;
    bool is_same; /* false: the request id was used for another method or content */
};
/* Returns 1 if the request id was accepted before, or 0 if it is new or has expired. OUT_OF_MEMORY,
 * STORE_FAILED, STORE_CORRUPT. */
MUST_USE int registry_find_request(struct registry *r, const struct request_key *key,
                                   struct arena *arena, struct accepted_request *ret,
                                   struct err *e);
