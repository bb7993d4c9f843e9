/* sandboxes — all sandboxes in memory, and what the registry, their owner, does with them.
 *
 * Owner:   the registry, which embeds it. A sandbox reports to its owner through `ops`.
 * Memory:  sandboxes that are not DELETED.
 * Handlers of calls use sandbox.h; this header is for core/registry. */
#pragma once

#include "base/map.h"
#include "core/exec/execs.h"
#include "core/sandbox/sandbox.h"

struct disk_space;
struct sandboxes;
struct transcript;

struct sandbox_owner_ops {
    /* Called after the record of the sandbox became durable. The sandbox may have started or stopped
     * running. */
    void (*on_durable)(struct sandboxes *all, struct sandbox *sb);
    /* A sandbox became STOPPED or FAILED, or was freed. */
    void (*on_ended)(struct sandboxes *all);
    /* One of the sandboxes that recovery waits for is done: recovery no longer waits for it. */
    void (*on_recovered)(struct sandboxes *all);
};

struct sandboxes {
    struct env *env;
    const struct sandbox_owner_ops *ops;
    struct map by_id;
    struct list list;    /* all sandboxes, oldest first; see sandbox_at */
    struct list dormant; /* adopted sandboxes whose guest no call has needed yet */
    uint64_t newest;     /* number of the newest sandbox */
    struct exec_table execs;
};

/* An instance from the pool, with its link. The sandbox that takes it owns all members. */
struct parked {
    struct instance *instance;
    struct guest_link *link;
    struct transcript *transcript; /* has the messages of the link so far */
    uint64_t slot;
    char name[INSTANCE_ID_MAX];    /* host name; the sandbox id unless the caller chose one */
    struct instance_limits limits; /* the limits with which the instance was created */
};
#define PARKED_WORKSPACE "/workspace" /* a directory that exists in every root */

#define SANDBOX_ID_PREFIX "sb-"
/* A sandbox starts only if this many descriptors are free: for itself, for its creation, and
 * some for calls. */
#define SANDBOX_FDS 16

/* Returns 0 or -errno. */
MUST_USE int sandboxes_init(struct sandboxes *all, struct env *env,
                            const struct sandbox_owner_ops *ops, const struct db_facts *facts);
void sandboxes_done(struct sandboxes *all);
/* NULL: no such sandbox. */
struct sandbox *sandboxes_find(const struct sandboxes *all, const char *id);
struct sandbox *sandbox_at(struct list *node); /* node of sandboxes.list */
/* Greets the guest of the first dormant sandbox. Returns false if no sandbox is dormant. */
bool sandboxes_wake_next(struct sandboxes *all);

/* Returns 0 when the id is free and the resources for this sandbox suffice. SANDBOX_EXISTS,
 * LIMIT_REACHED, STORE_FULL, DRIVER_UNAVAILABLE */
MUST_USE int sandbox_check_create(struct sandboxes *all, const char *id,
                                  const Berm__V1__SandboxSpec *spec, struct err *e);
/* Creates a sandbox; call sandbox_check_create first. `spec` has every default filled in; the
 * function copies it. If `id` is empty, the function generates one. `p` NULL: the driver creates an
 * instance. Sets p->instance to NULL when the sandbox has taken it. */
MUST_USE int sandbox_create(struct sandboxes *all, const char *id,
                            const Berm__V1__SandboxSpec *spec, struct parked *p,
                            const struct change *c, struct sandbox **ret_sb, struct err *e);
/* Rebuilds a sandbox from its row. Returns NULL if the record is damaged or memory is short. */
struct sandbox *sandbox_restore(struct sandboxes *all, const struct db_sandbox *row);
/* Adopts the instance of the sandbox, or finds that the instance is gone; on_recovered follows
 * once. */
void sandbox_recover(struct sandbox *sb);
/* Recovery stops waiting for the guest. */
void sandbox_recovery_timeout(struct sandbox *sb);
/* Call this when the daemon exits. Closes the daemon's end of the link and its handle of the
 * instance. The instance keeps running. */
void sandbox_let_go(struct sandbox *sb);
void sandbox_free(struct sandbox *sb);
/* Writes the buffered messages of the sandbox's link to the transcript file. */
void sandbox_flush(struct sandbox *sb);

struct box *sandbox_box(struct sandbox *sb);
const char *sandbox_instance_id(const struct sandbox *sb);
/* Returns whether the sandbox neither runs nor is about to run. */
bool sandbox_is_down(const struct sandbox *sb);
/* Returns the limits of an instance for this spec. */
void sandbox_limits(const Berm__V1__SandboxSpec *spec, struct instance_limits *ret_limits);

/* sandbox_reserve.c: returns whether the sandbox runs and has no limit that keeps it from filling
 * the disk */
bool sandbox_may_fill_disk(const struct sandbox *sb);
/* Returns whether the reserve pauses the sandbox, or is about to, until there is disk space
 * again. */
bool sandbox_is_held(const struct sandbox *sb);
/* Returns the free disk space and the reserve. A disk that cannot be read counts as having
 * space. */
void sandbox_reserve_read(const struct env *env, struct disk_space *ret_space);
/* Sets the error that explains why the reserve pauses a sandbox. */
void sandbox_reserve_explain(const struct env *env, struct err *ret_e);
