/* registry_impl — the fields of the registry; only core/registry includes it. */
#pragma once

#include "core/registry/registry.h"
#include "core/sandbox/sandboxes.h"
#include "store/db.h"

struct registry {
    struct env env;
    struct sandboxes all;
    struct pool *pool; /* NULL: the pool is disabled or already closed */
    uv_check_t turn;
    struct deadline prune;
    struct deadline flush;
    struct deadline wake; /* when to greet the next dormant guest */
    struct {
        struct deadline look;
        bool is_short; /* disk space was short at the last check */
    } reserve;         /* see reserve.h */
    bool flushed;
    /* recovery */
    void (*on_recovered)(struct registry *r, const struct err *e);
    unsigned n_recovering; /* sandboxes that recovery waits for */
    struct deadline recovery_deadline;
    uint64_t recover_by_us;
    unsigned n_adopted;
    unsigned n_adopted_execs;
    unsigned n_sweeping; /* number of drivers that have not reported the end of their sweep */
    /* the end */
    void (*on_stopped)(struct registry *r);
    void (*on_closed)(void *user);
    void *close_user;
};

/* Prunes now, and then every ten minutes. */
void registry_prune(struct registry *r);
/* recovery.c: call this when recovery need not wait for one of its sandboxes any more */
void recovery_count_one(struct registry *r);
