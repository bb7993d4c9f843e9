#include "core/exec/execs.h"

#include <stdio.h>

#include "base/log.h"
#include "core/exec/exec_impl.h"

int exec_table_init(struct exec_table *t, uint64_t newest) {
    list_init(&t->idle);
    t->newest = t->newest_found = newest;
    return map_init(&t->by_id);
}

void exec_table_done(struct exec_table *t) {
    exec_table_drop_idle(t);
    map_done(&t->by_id);
}

struct exec *exec_table_find(const struct exec_table *t, const char *id) {
    struct map_node *node = map_find(&t->by_id, id);
    return node ? container_of(node, struct exec, by_id) : NULL;
}

void exec_table_drop_idle(struct exec_table *t) {
    for (struct list *node; (node = list_pop_front(&t->idle));)
        exec_drop(container_of(node, struct exec, in_idle));
}

void execs_init(struct execs *set, struct box *b, struct exec_table *t) {
    set->box = b;
    set->table = t;
    list_init(&set->all);
    execs_cgroup_init(set);
}

void execs_done(struct execs *set) {
    for (struct list *node; (node = list_pop_front(&set->all));)
        exec_drop(container_of(node, struct exec, in_set));
    execs_cgroup_done(set);
}

struct execs *execs_of(const struct instance *p) {
    const struct box *b = p->user;
    return b->execs;
}

struct exec *execs_find(struct execs *set, struct str id) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)id.n, id.p);
    struct exec *x = exec_table_find(set->table, name);
    return x && x->set == set ? x : NULL;
}

void execs_drop_settled(struct execs *set) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->recorded.n_pending == 0)
            exec_drop(x);
    }
}

void execs_put_running(struct execs *set, struct entry *t) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->phase != PHASE_OVER && x->record->state == EXEC_RUNNING)
            entry_put_exec(t, &x->recorded, exec_record(x), x->owner, x->number, x->cgroup);
    }
}

void execs_wake_starting(struct execs *set) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->record->state == EXEC_STARTING)
            exec_wake(x);
    }
}

static void on_kills(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    if (!a->e)
        execs_of(p)->oom_kills_seen = a->usage.oom_kills;
}

void execs_learn_kills(struct execs *set) {
    if (set->box->instance && set->box->driver->usage)
        instance_measure(set->box->instance, on_kills, NULL);
}

/* --- pruning --- */

struct surplus {
    struct execs *set;
    struct entry *entry;
    int64_t kept;
    bool sweeps; /* the first call since the daemon started sweeps cgroups */
};

static bool execs_forget_old(void *user, const struct db_exec *row) {
    struct surplus *s = user;
    char name[80];
    bool has_ended = row->state == EXEC_EXITED || row->state == EXEC_LOST;
    snprintf(name, sizeof name, "%.*s", (int)row->id.n, row->id.p);
    if (s->sweeps && row->number <= s->set->table->newest_found)
        execs_cgroup_sweep(s->set, row); /* rows are sorted newest first */
    if (s->kept-- > 0 || !has_ended || exec_table_find(s->set->table, name))
        return true;
    db_forget_exec(entry_txn(s->entry), row->id);
    exec_remove_files(s->set, name);
    return true;
}

void execs_prune(struct execs *set, struct entry *t) {
    struct err e;
    const struct env *env = set->box->env;
    struct surplus s = {set, t, env->limits->of[LIMIT_EXECS_KEPT], !set->cgroups_are_swept};
    if (db_list_execs(env->db, STR(""), str_of(set->box->record->sandbox_id), 0, execs_forget_old,
                      &s, &e) < 0)
        log_text(LOG_WARN, "prune", "%s", e.text);
    set->n_started = 0;
    if (s.kept < 0)
        execs_count_output(set);
}
