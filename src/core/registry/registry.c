#include "core/registry/registry.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/registry/pool.h"
#include "core/registry/recovery.h"
#include "core/registry/reserve.h"

#define PRUNE_EVERY_US UINT64_C(600000000)
#define PRUNE_NEXT_US UINT64_C(100000)
#define PRUNE_AT_ONCE 32
#define FLUSH_AFTER_US 200000

void *registry_user(const struct registry *r) {
    return r->env.user;
}
struct env *registry_env(struct registry *r) {
    return &r->env;
}
struct ledger *registry_ledger(struct registry *r) {
    return r->env.ledger;
}
struct deadlines *registry_deadlines(struct registry *r) {
    return r->env.deadlines;
}
const struct limits *registry_limits(const struct registry *r) {
    return r->env.limits;
}
struct driver *registry_driver_at(const struct registry *r, size_t i) {
    return env_driver_at(&r->env, i);
}
struct driver *registry_driver(const struct registry *r, const char *name) {
    return env_driver(&r->env, name);
}
const char *registry_no_driver(const struct registry *r) {
    return r->env.no_driver;
}
bool registry_has_opener(const struct registry *r) {
    return r->env.opener != NULL;
}

/* --- finding --- */

static int registry_no_sandbox(const char *id, struct err *e) {
    err_set(e, ERR_SANDBOX_NOT_FOUND, "no sandbox has the id %.64s", id);
    return err_about(e, "sandbox_id", id);
}

int registry_find_sandbox(struct registry *r, const struct caller *who, const char *id,
                          struct sandbox **ret_sb, struct err *e) {
    struct sandbox *sb = sandboxes_find(&r->all, id);
    if (!sb || !caller_owns(who, sandbox_record(sb)->owner))
        return registry_no_sandbox(id, e);
    *ret_sb = sb;
    return 0;
}

static bool on_deleted_row(void *user, const struct db_sandbox *row) {
    if (row->record.n > 0)
        *(Berm__V1__Sandbox **)user =
            berm__v1__sandbox__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    return false;
}

int registry_find_deleted(struct registry *r, const struct caller *who, const char *id,
                          Berm__V1__Sandbox **ret_record, struct err *e) {
    Berm__V1__Sandbox *record = NULL;
    int found = db_find_sandbox(r->env.db, str_of(id), on_deleted_row, &record, e);
    if (found < 0)
        return found;
    if (record && caller_owns(who, record->owner)) {
        *ret_record = record;
        return 0;
    }
    if (record)
        berm__v1__sandbox__free_unpacked(record, NULL);
    return registry_no_sandbox(id, e);
}

struct load {
    struct registry *registry;
    struct exec *exec;
};

static struct exec *registry_restore_exec(struct registry *r, const struct db_exec *row) {
    char id[64];
    snprintf(id, sizeof id, "%.*s", (int)row->sandbox_id.n, row->sandbox_id.p);
    struct sandbox *sb = sandboxes_find(&r->all, id);
    return exec_restore(&r->env, &r->all.execs, sb ? sandbox_execs(sb) : NULL, row);
}

static bool on_exec_row(void *user, const struct db_exec *row) {
    struct load *l = user;
    if (row->record.n > 0)
        l->exec = registry_restore_exec(l->registry, row);
    return false;
}

int registry_find_exec(struct registry *r, const struct caller *who, const char *id,
                       struct exec **ret_x, struct err *e) {
    struct load l = {r, exec_table_find(&r->all.execs, id)};
    if (!l.exec) {
        int found = db_find_exec(r->env.db, str_of(id), on_exec_row, &l, e);
        if (found < 0)
            return found;
    }
    if (!l.exec || !caller_owns(who, exec_owner(l.exec)) || exec_is_removed(l.exec)) {
        err_set(e, ERR_EXEC_NOT_FOUND, "no program has the id %.64s", id);
        return err_about(e, "exec_id", id);
    }
    *ret_x = l.exec;
    return 0;
}

void registry_each_sandbox(struct registry *r, bool (*on)(void *user, struct sandbox *sb),
                           void *user) {
    for (struct list *node = r->all.list.prev, *before; node != &r->all.list; node = before) {
        before = node->prev;
        if (!on(user, sandbox_at(node)))
            return;
    }
}

/* --- creating --- */

int registry_create_sandbox(struct registry *r, const char *id, const Berm__V1__SandboxSpec *spec,
                            const struct change *c, struct sandbox **ret_sb, struct err *e) {
    struct parked parked = {0};
    int failed = sandbox_check_create(&r->all, id, spec, e);
    if (failed < 0)
        return failed;
    bool is_claim = pool_take(r->pool, spec, &parked);
    failed = sandbox_create(&r->all, id, spec, is_claim ? &parked : NULL, c, ret_sb, e);
    if (failed < 0 && parked.instance)
        pool_discard(r->pool, &parked);
    return failed;
}

/* --- housekeeping --- */

/* At the end of a turn, frees execs that have ended and that nobody watches. */
static void on_turn(uv_check_t *turn) {
    struct registry *r = turn->data;
    exec_table_drop_idle(&r->all.execs);
    if (!r->flushed && !r->flush.is_set && !r->env.is_closing)
        deadline_set(r->env.deadlines, &r->flush, clock_us() + FLUSH_AFTER_US);
    r->flushed = false; /* a flush set it, so as not to trigger another flush */
}

/* Prunes a few sandboxes per loop turn, because each needs a query. Returns true when others are
 * left. */
static bool registry_prune_execs(struct registry *r, struct entry *t) {
    int n = 0;
    LIST_FOR_EACH(node, &r->all.list) {
        struct execs *set = sandbox_execs(sandbox_at(node));
        if (set->n_started == 0)
            continue;
        if (n++ == PRUNE_AT_ONCE)
            return true;
        execs_prune(set, t);
    }
    return false;
}

void registry_prune(struct registry *r) {
    const int64_t *limit = r->env.limits->of;
    int64_t now = clock_unix_ms();
    struct entry *t = ledger_begin(r->env.ledger);
    bool is_more = false;
    if (t) {
        db_prune(entry_txn(t), now, now - limit[LIMIT_EVENTS_KEEP],
                 (uint64_t)limit[LIMIT_EVENTS_LEAST], now - limit[LIMIT_EVENTS_KEEP]);
        is_more = registry_prune_execs(r, t);
        ledger_commit(t, NULL);
    }
    deadline_set(r->env.deadlines, &r->prune,
                 clock_us() + (is_more ? PRUNE_NEXT_US : PRUNE_EVERY_US));
}

static void on_prune(struct deadline *d) {
    registry_prune(container_of(d, struct registry, prune));
}

/* Writes the transcripts of links, many lines in one write. */
static void on_flush(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, flush);
    r->flushed = true;
    LIST_FOR_EACH(node, &r->all.list)
        sandbox_flush(sandbox_at(node));
}

/* --- the end --- */

/* For --stop-sandboxes: calls on_stopped once all sandboxes are down. */
static void registry_look(struct registry *r) {
    if (!r->on_stopped)
        return;
    LIST_FOR_EACH(node, &r->all.list)
        if (!sandbox_is_down(sandbox_at(node)))
            return;
    void (*on_stopped)(struct registry * r) = TAKE(r->on_stopped);
    on_stopped(r);
}

void registry_stop_all(struct registry *r, void (*on_stopped)(struct registry *r)) {
    struct err e;
    r->on_stopped = on_stopped;
    LIST_FOR_EACH(node, &r->all.list) {
        struct sandbox *sb = sandbox_at(node);
        struct change c = {0}; /* the daemon itself makes the change */
        if (box_has_instance(sandbox_box(sb)) && sandbox_stop(sb, 0, 0, &c, &e) < 0)
            log_text(LOG_WARN, "stop", "%s: %s", sandbox_record(sb)->sandbox_id, e.text);
    }
    registry_look(r);
}

static void on_turn_closed(uv_handle_t *handle) {
    struct registry *r = handle->data;
    void (*notify)(void *user) = r->on_closed;
    void *user = r->close_user;
    free(r);
    notify(user);
}

static void on_db_closed(void *user) {
    struct registry *r = user;
    /* Free the sandboxes now: no entry is pending, so no entry refers to an object. */
    sandboxes_done(&r->all);
    ledger_free(r->env.ledger);
    uv_close((uv_handle_t *)&r->turn, on_turn_closed);
}

static void on_idle(struct env *env) {
    struct registry *r = container_of(env, struct registry, env);
    db_close(r->env.db, on_db_closed, r);
}

void registry_close(struct registry *r, void (*on_closed)(void *user), void *user) {
    recovery_report_end(r);
    pool_close(TAKE(r->pool));
    r->env.is_closing = true;
    r->on_closed = on_closed;
    r->close_user = user;
    deadline_clear(r->env.deadlines, &r->prune);
    deadline_clear(r->env.deadlines, &r->flush);
    deadline_clear(r->env.deadlines, &r->wake);
    reserve_end(r);
    deadline_clear(r->env.deadlines, &r->recovery_deadline);
    LIST_FOR_EACH(node, &r->all.list)
        sandbox_let_go(sandbox_at(node));
    if (r->env.n_jobs == 0)
        on_idle(&r->env);
}

/* --- opening --- */

/* A damaged record stops the start: without it, recovery would sweep what the record names. */
struct reading {
    struct registry *registry;
    struct err failure;
};

static bool on_sandbox_record(void *user, const struct db_sandbox *row) {
    struct reading *all = user;
    if (sandbox_restore(&all->registry->all, row))
        return true;
    err_set(&all->failure, ERR_STORE_CORRUPT, "the record of sandbox %.*s cannot be read",
            (int)MIN(row->id.n, (size_t)64), row->id.p);
    return false;
}

static bool on_exec_record(void *user, const struct db_exec *row) {
    struct reading *all = user;
    if (row->record.n == 0) /* no record: the sandbox was deleted before the exit was stored */
        return true;
    if (registry_restore_exec(all->registry, row))
        return true;
    err_set(&all->failure, ERR_STORE_CORRUPT, "the record of program %.*s cannot be read",
            (int)MIN(row->id.n, (size_t)64), row->id.p);
    return false;
}

static int registry_read_records(struct registry *r, struct err *e) {
    struct reading all = {.registry = r};
    int failed = db_each_living(r->env.db, on_sandbox_record, &all, e);
    if (failed == 0 && all.failure.code == ERR_NONE)
        failed = db_each_running(r->env.db, on_exec_record, &all, e);
    if (failed == 0 && all.failure.code != ERR_NONE) {
        *e = all.failure;
        failed = -(int)e->code;
    }
    return failed;
}

static void on_durable(struct sandboxes *all, struct sandbox *sb) {
    reserve_watch(container_of(all, struct registry, all), sb);
}

static void on_ended(struct sandboxes *all) {
    registry_look(container_of(all, struct registry, all));
}

static void on_recovered(struct sandboxes *all) {
    recovery_count_one(container_of(all, struct registry, all));
}

static const struct sandbox_owner_ops owner_ops = {on_durable, on_ended, on_recovered};

int registry_open(const struct env *env, struct registry **ret_r, struct err *e) {
    struct db_facts facts;
    struct registry *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    r->env = *env;
    r->env.on_idle = on_idle;
    char state_dir[32];
    snprintf(state_dir, sizeof state_dir, "/proc/self/fd/%d", env->state_dir_fd);
    int failed = db_open(env->loop, state_dir, &r->env.db, &facts, e);
    if (failed < 0) {
        free(r);
        return failed;
    }
    r->env.ledger = ledger_open(env->loop, r->env.db, &facts);
    if (!r->env.ledger || sandboxes_init(&r->all, &r->env, &owner_ops, &facts) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory"); /* the process then exits */
    uv_check_init(env->loop, &r->turn);
    r->turn.data = r;
    uv_check_start(&r->turn, on_turn);
    uv_unref((uv_handle_t *)&r->turn);
    deadline_init(&r->prune, on_prune);
    deadline_init(&r->flush, on_flush);
    recovery_init(r);
    reserve_init(r);
    r->pool = pool_new(&r->env);
    *ret_r = r;
    return registry_read_records(r, e);
}
