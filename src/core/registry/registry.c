#include "core/registry/registry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/exec/exec_impl.h"
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
struct ledger *registry_ledger(struct registry *r) {
    return r->env.ledger;
}
struct file_turns *registry_file_turns(struct registry *r) {
    return r->env.file_turns;
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

static int no_sandbox(const char *id, struct err *e) {
    err_set(e, ERR_SANDBOX_NOT_FOUND, "no sandbox has the id %.64s", id);
    return err_about(e, "sandbox_id", id);
}

int registry_find_sandbox(struct registry *r, const struct caller *who, const char *id,
                          struct sandbox **ret_sb, struct err *e) {
    struct map_node *node = map_find(&r->sandboxes, id);
    struct sandbox *sb = node ? container_of(node, struct sandbox, by_id) : NULL;
    if (!sb || !caller_owns(who, sb->record->owner))
        return no_sandbox(id, e);
    *ret_sb = sb;
    return 0;
}

static bool unpack_sandbox(void *user, const struct db_sandbox *row) {
    if (row->record.n > 0)
        *(Berm__V1__Sandbox **)user =
            berm__v1__sandbox__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    return false;
}

int registry_find_deleted(struct registry *r, const struct caller *who, const char *id,
                          Berm__V1__Sandbox **ret_record, struct err *e) {
    Berm__V1__Sandbox *record = NULL;
    int found = db_find_sandbox(r->env.db, str_of(id), unpack_sandbox, &record, e);
    if (found < 0)
        return found;
    if (record && caller_owns(who, record->owner)) {
        *ret_record = record;
        return 0;
    }
    if (record)
        berm__v1__sandbox__free_unpacked(record, NULL);
    return no_sandbox(id, e);
}

struct load {
    struct registry *registry;
    struct exec *exec;
};

static bool load_exec(void *user, const struct db_exec *row) {
    struct load *l = user;
    if (row->record.n > 0)
        l->exec = exec_restore(l->registry, row);
    return false;
}

int registry_find_exec(struct registry *r, const struct caller *who, const char *id,
                       struct exec **ret_x, struct err *e) {
    struct map_node *node = map_find(&r->execs, id);
    struct load l = {r, node ? container_of(node, struct exec, by_id) : NULL};
    if (!l.exec) {
        int found = db_find_exec(r->env.db, str_of(id), load_exec, &l, e);
        if (found < 0)
            return found;
    }
    if (!l.exec || !caller_owns(who, l.exec->owner) ||
        (l.exec->sandbox &&
         l.exec->sandbox->instance_state == INST_REMOVING)) { /* its output is going */
        err_set(e, ERR_EXEC_NOT_FOUND, "no program has the id %.64s", id);
        return err_about(e, "exec_id", id);
    }
    *ret_x = l.exec;
    return 0;
}

void registry_each_sandbox(struct registry *r, bool (*on)(void *user, struct sandbox *sb),
                           void *user) {
    for (struct list *node = r->all.prev, *before; node != &r->all; node = before) {
        before = node->prev;
        if (!on(user, container_of(node, struct sandbox, in_registry)))
            return;
    }
}

/* --- housekeeping --- */

/* Programs that have ended and that nobody watches leave memory at the end of a turn. */
static void on_turn(uv_check_t *turn) {
    struct registry *r = turn->data;
    for (struct list *node; (node = list_pop_front(&r->idle_execs));)
        exec_drop(container_of(node, struct exec, in_idle));
    if (!r->flushed && !r->flush.is_set && !r->env.is_closing)
        deadline_set(r->env.deadlines, &r->flush, clock_us() + FLUSH_AFTER_US);
    r->flushed = false; /* the turn that flushed is no reason to flush again */
}

/* Programs of one sandbox beyond the number kept. */
struct surplus {
    struct registry *registry;
    struct sandbox *sandbox;
    struct entry *entry;
    int64_t kept;
    bool sweeps; /* for the first time since the start */
};

static bool forget_old(void *user, const struct db_exec *row) {
    struct surplus *s = user;
    char name[80];
    bool has_ended = row->state == EXEC_EXITED || row->state == EXEC_LOST;
    snprintf(name, sizeof name, "%.*s", (int)row->id.n, row->id.p);
    if (s->sweeps && row->number <= s->registry->exec_number_found)
        exec_cgroup_sweep(s->sandbox, row); /* they come newest first */
    if (s->kept-- > 0 || !has_ended || map_find(&s->registry->execs, name))
        return true;
    db_forget_exec(entry_txn(s->entry), row->id);
    exec_remove_files(s->sandbox, name);
    return true;
}

/* Some sandboxes at a time, because each is a question to the store: true when others are left. */
static bool prune_execs(struct registry *r, struct entry *t) {
    struct err e;
    int n = 0;
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        struct surplus s = {r, sb, t, r->env.limits->of[LIMIT_EXECS_KEPT], !sb->cgroups_are_swept};
        struct str id = str_of(sb->record->sandbox_id);
        if (sb->n_started == 0)
            continue;
        if (n++ == PRUNE_AT_ONCE)
            return true;
        if (db_list_execs(r->env.db, STR(""), id, 0, forget_old, &s, &e) < 0)
            log_text(LOG_WARN, "prune", "%s", e.text);
        sb->n_started = 0;
        if (s.kept < 0)
            sandbox_count_output(sb);
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
        is_more = prune_execs(r, t);
        ledger_commit(t, NULL);
    }
    deadline_set(r->env.deadlines, &r->prune,
                 clock_us() + (is_more ? PRUNE_NEXT_US : PRUNE_EVERY_US));
}

static void on_prune(struct deadline *d) {
    registry_prune(container_of(d, struct registry, prune));
}

/* What was said to guests reaches their transcripts soon after, many lines in one write. */
static void on_flush(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, flush);
    r->flushed = true;
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        if (sb->transcript)
            transcript_flush(sb->transcript);
    }
}

/* --- the end --- */

static bool is_down(const struct sandbox *sb) {
    return !sb->driver ||
           (!sandbox_has_instance(sb) && sb->recorded.on_way == 0 && sb->goal >= GOAL_STOP);
}

void registry_look(struct registry *r) {
    if (!r->on_stopped)
        return;
    LIST_FOR_EACH(node, &r->all)
        if (!is_down(container_of(node, struct sandbox, in_registry)) &&
            !sandbox_is(container_of(node, struct sandbox, in_registry), SB_FAILED))
            return;
    void (*told)(struct registry * r) = TAKE(r->on_stopped);
    told(r);
}

void registry_stop_all(struct registry *r, void (*on_stopped)(struct registry *r)) {
    struct err e;
    r->on_stopped = on_stopped;
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        struct change c = {0}; /* by the daemon itself */
        if (sandbox_has_instance(sb) && sandbox_stop(sb, 0, 0, &c, &e) < 0)
            log_text(LOG_WARN, "stop", "%s: %s", sb->record->sandbox_id, e.text);
    }
    registry_look(r);
}

static void on_turn_closed(uv_handle_t *handle) {
    struct registry *r = handle->data;
    void (*told)(void *user) = r->on_closed;
    void *user = r->close_user;
    map_done(&r->sandboxes);
    map_done(&r->execs);
    free(r);
    told(user);
}

static void on_db_closed(void *user) {
    struct registry *r = user;
    /* Every entry has been answered: nothing holds an object any more. */
    for (struct list *node; (node = list_pop_front(&r->all));)
        sandbox_free(container_of(node, struct sandbox, in_registry));
    for (struct list *node; (node = list_pop_front(&r->idle_execs));)
        exec_drop(container_of(node, struct exec, in_idle));
    ledger_free(r->env.ledger);
    uv_close((uv_handle_t *)&r->turn, on_turn_closed);
}

static void on_idle(struct env *env) {
    struct registry *r = container_of(env, struct registry, env);
    db_close(r->env.db, on_db_closed, r);
}

void registry_close(struct registry *r, void (*on_closed)(void *user), void *user) {
    registry_says_goodbye(r);
    pool_close(TAKE(r->pool));
    r->env.is_closing = true;
    r->on_closed = on_closed;
    r->close_user = user;
    deadline_clear(r->env.deadlines, &r->prune);
    deadline_clear(r->env.deadlines, &r->flush);
    deadline_clear(r->env.deadlines, &r->wake);
    reserve_end(r);
    deadline_clear(r->env.deadlines, &r->recovery_deadline);
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        sandbox_disconnect(sb);
        imports_end(&sb->imports);
        if (sb->instance)
            instance_close(TAKE(sb->instance));
        if (sandbox_has_instance(sb))
            sandbox_set_instance(sb, INST_NONE);
    }
    if (r->env.n_jobs == 0)
        on_idle(&r->env);
}

/* --- opening --- */

/* Who goes on without a record takes what it speaks of for nobody's, and sweeps it away. */
struct reading {
    struct registry *registry;
    struct err failure;
};

static bool restore_sandbox(void *user, const struct db_sandbox *row) {
    struct reading *all = user;
    if (sandbox_restore(all->registry, row))
        return true;
    err_set(&all->failure, ERR_STORE_CORRUPT, "the record of sandbox %.*s cannot be read",
            (int)MIN(row->id.n, (size_t)64), row->id.p);
    return false;
}

static bool restore_exec(void *user, const struct db_exec *row) {
    struct reading *all = user;
    if (row->record.n == 0) /* forgotten: its sandbox went while its end could not be written */
        return true;
    if (exec_restore(all->registry, row))
        return true;
    err_set(&all->failure, ERR_STORE_CORRUPT, "the record of program %.*s cannot be read",
            (int)MIN(row->id.n, (size_t)64), row->id.p);
    return false;
}

static int read_records(struct registry *r, struct err *e) {
    struct reading all = {.registry = r};
    int failed = db_each_living(r->env.db, restore_sandbox, &all, e);
    if (failed == 0 && all.failure.code == ERR_NONE)
        failed = db_each_running(r->env.db, restore_exec, &all, e);
    if (failed == 0 && all.failure.code != ERR_NONE) {
        *e = all.failure;
        failed = -(int)e->code;
    }
    return failed;
}

int registry_open(const struct env *env, struct registry **ret_r, struct err *e) {
    struct db_facts facts;
    struct registry *r = calloc(1, sizeof *r);
    if (!r || map_init(&r->sandboxes) < 0 || map_init(&r->execs) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory"); /* at start: the process ends */
    r->env = *env;
    r->env.on_idle = on_idle;
    list_init(&r->all);
    list_init(&r->dormant);
    list_init(&r->idle_execs);
    char state_dir[32];
    snprintf(state_dir, sizeof state_dir, "/proc/self/fd/%d", env->state_dir_fd);
    int failed = db_open(env->loop, state_dir, &r->env.db, &facts, e);
    if (failed < 0) {
        map_done(&r->sandboxes);
        map_done(&r->execs);
        free(r);
        return failed;
    }
    r->env.ledger = ledger_open(env->loop, r->env.db, &facts);
    r->sandbox_number = facts.sandbox_number;
    r->exec_number = r->exec_number_found = facts.exec_number;
    uv_check_init(env->loop, &r->turn);
    r->turn.data = r;
    uv_check_start(&r->turn, on_turn);
    uv_unref((uv_handle_t *)&r->turn);
    deadline_init(&r->prune, on_prune);
    deadline_init(&r->flush, on_flush);
    recovery_init(r);
    reserve_init(r);
    r->pool = pool_new(r);
    *ret_r = r;
    return r->env.ledger ? read_records(r, e) : err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}
