#include "core/exec/exec.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "core/exec/exec_impl.h"

#define AGAIN_US 1000000
#define ARGV_MAX 4096       /* exec.argv_count */
#define EVENT_ARGV_MAX 4096 /* event.argv */

/* --- accessors --- */

const Berm__V1__Exec *exec_record(struct exec *x) {
    exec_fill_output(x);
    if (x->phase != PHASE_OVER && x->started_us != 0)
        x->record->usage->wall_us = clock_us() - x->started_us;
    else if (x->phase != PHASE_OVER && x->record->started_unix_ms > 0)
        x->record->usage->wall_us =
            (uint64_t)MAX(0, clock_unix_ms() - x->record->started_unix_ms) * 1000;
    return x->record;
}

const struct recorded *exec_recorded(const struct exec *x) {
    return &x->recorded;
}
const char *exec_owner(const struct exec *x) {
    return x->owner;
}
bool exec_is_running(const struct exec *x) {
    return x->record->state == EXEC_STARTING || x->record->state == EXEC_RUNNING;
}
bool exec_is_answered(const struct exec *x) {
    struct err ignored;
    return x->record->state != EXEC_STARTING || !x->set ||
           box_check_ready(x->set->box, 0, &ignored) < 0;
}
bool exec_is_over(const struct exec *x) {
    return x->phase == PHASE_OVER;
}
bool exec_is_removed(const struct exec *x) {
    return x->set && x->set->box->instance_state == INST_REMOVING;
}
bool exec_has_terminal(const struct exec *x) {
    return x->record->spec->terminal != NULL;
}
unsigned exec_n_streams(const struct exec *x) {
    return x->record->spec->terminal || x->record->spec->merge_stderr ? 1 : 2;
}

/* --- watchers --- */

void exec_watch(struct exec *x, struct exec_watch *w, void (*on_change)(struct waiter *w)) {
    w->exec = x;
    waiter_init(&w->waiter, on_change);
    waiter_add(&x->watches, &w->waiter);
    list_remove(&x->in_idle);
}

void exec_unwatch(struct exec_watch *w) {
    struct exec *x = TAKE(w->exec);
    waiter_cancel(&w->waiter);
    if (!x)
        return;
    exec_settle_idle(x);
}

void exec_wake(struct exec *x) {
    waiters_wake(&x->watches);
}

/* --- life of the object --- */

bool exec_is_settled(const struct exec *x) {
    return x->phase == PHASE_OVER && x->recorded.n_pending == 0 && !x->again.is_set;
}

void exec_settle_idle(struct exec *x) {
    if (!list_is_empty(&x->watches))
        return;
    exec_close_logs(x);
    if (exec_is_settled(x) && list_is_empty(&x->in_idle))
        list_push_back(&x->table->idle, &x->in_idle);
}

static void on_durable(struct recorded *r) {
    struct exec *x = container_of(r, struct exec, recorded);
    if (x->phase == PHASE_INTENT) {
        failpoint(FAIL_EXEC_COMMIT);
        exec_set_phase(x, PHASE_WAITING);
    }
    if (x->phase != PHASE_OVER) {
        exec_go(x);
        return;
    }
    failpoint(FAIL_EXIT_COMMIT);
    if (x->set && box_is_linked(x->set->box))
        guest_exec_forget(x->set->box->link, str_of(x->record->exec_id));
    if (x->set)
        execs_cgroup_make_ahead(x->set);
    exec_settle_idle(x);
}

/* The commit failed. If the start is not durable, the exec is removed and its caller gets the
 * error. An exit was already reported and is in the status file, so it is recorded again when the
 * store works. */
static void on_reverted(struct recorded *r) {
    struct exec *x = container_of(r, struct exec, recorded);
    if (!r->durable) {
        exec_cgroup_return(x);
        exec_drop(x);
    } else if (x->phase == PHASE_OVER)
        deadline_set(x->env->deadlines, &x->again, clock_us() + AGAIN_US);
}

static void on_again(struct deadline *d) {
    struct exec *x = container_of(d, struct exec, again);
    if (x->set->box->instance_state ==
        INST_REMOVING) /* no new entry may hold an exec whose sandbox is being removed */
        exec_drop(x);
    else
        exec_record_exit(x);
}

static const struct recorded_ops recorded_ops = {on_durable, on_reverted};

static struct exec *exec_new(struct env *env, struct exec_table *table, struct execs *set,
                             Berm__V1__Exec *record, const char *owner, uint64_t number) {
    struct exec *x = calloc(1, sizeof *x);
    if (!x || !(x->owner = strdup(owner))) {
        free(x);
        return NULL;
    }
    x->env = env;
    x->table = table;
    x->set = set;
    x->record = record;
    x->number = number;
    x->recorded.ops = &recorded_ops;
    x->cgroup_fd = x->log_fds[0] = x->log_fds[1] = -1;
    list_init(&x->in_set);
    list_init(&x->in_idle);
    list_init(&x->watches);
    list_init(&x->asks);
    guest_wait_init(&x->start_wait, NULL);
    guest_wait_init(&x->input_wait, NULL);
    deadline_init(&x->again, on_again);
    exec_readers_init(x);
    exec_fetch_init(x);
    map_add(&table->by_id, &x->by_id, record->exec_id);
    if (set)
        list_push_back(&set->all, &x->in_set);
    return x;
}

static void exec_count_running(struct exec *x, int by) {
    if (x->set)
        x->set->n_running += (unsigned)by;
}

/* Returns whether the record has the parts that other code uses without a check. */
static bool exec_record_is_complete(Berm__V1__Exec *record) {
    return record && record->spec && record->usage && record->input && record->n_output > 0;
}

struct exec *exec_restore(struct env *env, struct exec_table *t, struct execs *set,
                          const struct db_exec *row) {
    char owner[CALLER_IDENTITY_MAX];
    Berm__V1__Exec *record =
        berm__v1__exec__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    snprintf(owner, sizeof owner, "%.*s", (int)row->owner.n, row->owner.p);
    struct exec *x =
        exec_record_is_complete(record) ? exec_new(env, t, set, record, owner, row->number) : NULL;
    if (!x) {
        if (record)
            berm__v1__exec__free_unpacked(record, NULL);
        return NULL;
    }
    x->cgroup = row->cgroup;
    exec_set_phase(x, exec_is_running(x) ? PHASE_WAITING : PHASE_OVER);
    x->recorded.durable = malloc(row->record.n ? row->record.n : 1);
    if (x->recorded.durable) {
        memcpy(x->recorded.durable, row->record.p, row->record.n);
        x->recorded.n_durable = row->record.n;
    }
    for (size_t s = 0; s < record->n_output && s < EXEC_STREAMS; s++)
        x->views[s].seen = record->output[s]->end_offset;
    if (x->phase != PHASE_OVER) {
        exec_count_running(x, 1);
        exec_restore_input(x);
        exec_readers_restore(x);
    } else {
        exec_settle_idle(x);
    }
    return x;
}

void exec_drop(struct exec *x) {
    struct deadlines *deadlines = x->env->deadlines;
    if (x->phase != PHASE_OVER)
        exec_count_running(x, -1);
    guest_wait_cancel(&x->start_wait);
    guest_wait_cancel(&x->input_wait);
    exec_asks_cancel(x);
    exec_fetch_done(x);
    deadline_clear(deadlines, &x->again);
    map_remove(&x->table->by_id, &x->by_id);
    list_remove(&x->in_set);
    list_remove(&x->in_idle);
    LIST_FOR_EACH(node, &x->watches)
        container_of(node, struct exec_watch, waiter.node)->exec = NULL;
    waiters_end(&x->watches);
    exec_readers_done(x);
    exec_close_logs(x);
    if (x->cgroup_fd >= 0)
        close(x->cgroup_fd);
    free(x->input);
    if (x->exit)
        berm__v1__exit_status__free_unpacked(x->exit, NULL);
    free(x->owner);
    free(x->recorded.durable);
    berm__v1__exec__free_unpacked(x->record, NULL);
    free(x);
}

/* --- start --- */

static bool on_found(void *user, const struct db_exec *row) {
    (void)user;
    (void)row;
    return false;
}

static int exec_check_id(const struct execs *set, const char *id, struct err *e) {
    int taken = exec_table_find(set->table, id) != NULL;
    if (!taken)
        taken = db_find_exec(set->box->env->db, str_of(id), on_found, NULL, e);
    if (taken <= 0)
        return taken;
    err_set(e, ERR_EXEC_EXISTS, "the id %s is, or was, in use", id);
    return err_about(e, "exec_id", id);
}

static Berm__V1__Exec *exec_record_new(const struct execs *set, const char *id,
                                       const Berm__V1__ExecSpec *spec) {
    Berm__V1__Exec model = BERM__V1__EXEC__INIT;
    Berm__V1__ExecSpec filled = *spec; /* the sandbox supplies the defaults */
    Berm__V1__ExecUsage usage = BERM__V1__EXEC_USAGE__INIT;
    Berm__V1__StdinState input = BERM__V1__STDIN_STATE__INIT;
    Berm__V1__OutputState streams[EXEC_STREAMS] = {BERM__V1__OUTPUT_STATE__INIT,
                                                   BERM__V1__OUTPUT_STATE__INIT};
    Berm__V1__OutputState *list[EXEC_STREAMS] = {&streams[0], &streams[1]};
    streams[0].stream = BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT;
    streams[1].stream = BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR;
    if (!filled.user[0])
        filled.user = (char *)box_user(set->box);
    if (!filled.cwd[0])
        filled.cwd = set->box->record->spec->workspace;
    model.exec_id = (char *)id;
    model.sandbox_id = set->box->record->sandbox_id;
    model.incarnation = set->box->record->incarnation;
    model.spec = &filled;
    model.state = EXEC_STARTING;
    model.usage = &usage;
    model.input = &input;
    model.n_output = spec->terminal || spec->merge_stderr ? 1 : 2;
    model.output = list;
    model.created_unix_ms = clock_unix_ms();
    size_t n = berm__v1__exec__get_packed_size(&model);
    AUTO_FREE uint8_t *packed = malloc(n);
    if (!packed)
        return NULL;
    berm__v1__exec__pack(&model, packed);
    return berm__v1__exec__unpack(NULL, n, packed);
}

/* Fits argv into an event of `most` bytes. Returns the number of arguments; the last may be cut. */
static size_t exec_fit_argv(const Berm__V1__ExecSpec *spec, int64_t most, char **out, char *cut,
                            bool *ret_cut) {
    size_t n = 0;
    int64_t left = most;
    for (; n < spec->n_argv && n < ARGV_MAX && left > 0; n++) {
        size_t size = strlen(spec->argv[n]);
        out[n] = spec->argv[n];
        if ((int64_t)size > left) {
            memcpy(cut, spec->argv[n], (size_t)left);
            /* Do not cut inside a UTF-8 character. */
            while (left > 0 && ((uint8_t)cut[left - 1] & 0xc0) == 0x80)
                left--;
            if (left > 0 && (uint8_t)cut[left - 1] >= 0xc0)
                left--;
            cut[left] = '\0';
            out[n++] = cut;
            *ret_cut = true;
            return n;
        }
        left -= (int64_t)size + 1;
    }
    *ret_cut = n < spec->n_argv;
    return n;
}

static void exec_put_start_event(struct exec *x, struct entry *t, const struct change *c) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__ExecStartEvent start = BERM__V1__EXEC_START_EVENT__INIT;
    const Berm__V1__ExecSpec *spec = x->record->spec;
    const Berm__V1__SandboxSpec *sandbox = x->set->box->record->spec;
    char *argv[ARGV_MAX];
    char cut[EVENT_ARGV_MAX + 1];
    bool was_cut = false;
    box_event_init(x->set->box, &event, &actor, c->who, false, c->key ? c->key->request_id : NULL);
    start.exec_id = x->record->exec_id;
    start.n_argv = exec_fit_argv(spec, EVENT_ARGV_MAX, argv, cut, &was_cut);
    start.argv = argv;
    start.argv_truncated = was_cut;
    start.cwd = spec->cwd;
    start.user = spec->user;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_EXEC_START;
    event.body_case = BERM__V1__EVENT__BODY_EXEC_START;
    event.exec_start = &start;
    x->record->changed_sequence = entry_event(t, &event, sandbox->n_labels, sandbox->labels);
}

static int exec_check_capacity(const struct execs *set, struct err *e) {
    int64_t most = set->box->record->spec->limits ? set->box->record->spec->limits->execs : -1;
    if (most <= 0 || (int64_t)set->n_running < most)
        return 0;
    return err_limit(e, ERR_LIMIT_REACHED, LIMIT_EXECS, most, "%lld programs run in %s",
                     (long long)most, set->box->record->sandbox_id);
}

int exec_start(struct execs *set, uint64_t incarnation, const char *id,
               const Berm__V1__ExecSpec *spec, struct str stdin_data, const struct change *c,
               struct exec **ret_x, struct err *e) {
    char made[64];
    struct env *env = set->box->env;
    if (!id[0]) {
        env_make_id("ex-", made);
        id = made;
    }
    if (box_check_ready(set->box, incarnation, e) < 0 || exec_check_capacity(set, e) < 0 ||
        exec_check_id(set, id, e) < 0)
        return -(int)e->code;
    Berm__V1__Exec *record = exec_record_new(set, id, spec);
    struct exec *x = record ? exec_new(env, set->table, set, record, set->box->record->owner,
                                       set->table->newest + 1)
                            : NULL;
    bool kept = x && exec_keep_input(x, stdin_data, e) == 0;
    struct entry *t = kept ? ledger_begin(env->ledger) : NULL;
    if (!t) {
        if (x) {
            exec_count_running(x, 1); /* exec_drop subtracts 1 again */
            exec_forget_input(x);
            exec_drop(x);
        } else if (record) {
            berm__v1__exec__free_unpacked(record, NULL);
        }
        return x && !kept ? -(int)e->code : change_refused(e);
    }
    set->table->newest++;
    set->n_started++;
    exec_count_running(x, 1);
    set->box->ops->touch(set->box);
    exec_cgroup_take(x);
    exec_put_start_event(x, t, c);
    entry_put_exec(t, &x->recorded, x->record, x->owner, x->number, x->cgroup);
    entry_put_request(t, c->key, x->record->exec_id, (struct str){0});
    failpoint(FAIL_EXEC_INTENT);
    ledger_commit(t, c->wait);
    *ret_x = x;
    return 0;
}
