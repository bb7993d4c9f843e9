/* exec_exit — determines how an exec ended, from the guest, its status file and the memory
 * controller. If none of them shows the exit, the exec is LOST. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/fd.h"
#include "core/exec/exec_impl.h"

#define AGAIN_US 1000000

/* --- the exit as a message --- */

static Berm__V1__ExitStatus *exec_exit_new(void) {
    Berm__V1__ExitStatus *s = malloc(sizeof *s);
    if (s)
        berm__v1__exit_status__init(s);
    return s;
}

static char *exec_exit_copy_text(const char *text) {
    char *copy = strdup(text);
    return copy ? copy : (char *)protobuf_c_empty_string;
}

static bool exec_exit_set_signal(Berm__V1__ExitStatus *s, int number, int source) {
    Berm__V1__ExitSignal *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_signal__init(part);
    part->signal_number = number;
    part->source = (Berm__V1__SignalSource)source;
    s->how_case = BERM__V1__EXIT_STATUS__HOW_SIGNAL;
    s->signal = part;
    return true;
}

static bool exec_exit_set_timed_out(Berm__V1__ExitStatus *s, int number, int64_t timeout_ms) {
    Berm__V1__ExitTimedOut *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_timed_out__init(part);
    part->signal_number = number;
    part->timeout_ms = timeout_ms;
    s->how_case = BERM__V1__EXIT_STATUS__HOW_TIMED_OUT;
    s->timed_out = part;
    return true;
}

static bool exec_exit_set_out_of_memory(Berm__V1__ExitStatus *s, int64_t limit_bytes) {
    Berm__V1__ExitOutOfMemory *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_out_of_memory__init(part);
    part->limit_bytes = limit_bytes;
    s->how_case = BERM__V1__EXIT_STATUS__HOW_OUT_OF_MEMORY;
    s->out_of_memory = part;
    return true;
}

static bool exec_exit_set_output_limit(Berm__V1__ExitStatus *s, int64_t limit_bytes) {
    Berm__V1__ExitOutputLimit *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_output_limit__init(part);
    part->limit_bytes = limit_bytes;
    s->how_case = BERM__V1__EXIT_STATUS__HOW_OUTPUT_LIMIT;
    s->output_limit = part;
    return true;
}

static bool exec_exit_set_not_started(Berm__V1__ExitStatus *s, const char *code,
                                      const char *message) {
    Berm__V1__ExitNotStarted *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_not_started__init(part);
    part->code = exec_exit_copy_text(code);
    part->message = exec_exit_copy_text(message);
    s->how_case = BERM__V1__EXIT_STATUS__HOW_NOT_STARTED;
    s->not_started = part;
    return true;
}

static bool exec_exit_set_lost(Berm__V1__ExitStatus *s, const char *code, const char *message) {
    Berm__V1__ExitLost *part = malloc(sizeof *part);
    if (!part)
        return false;
    berm__v1__exit_lost__init(part);
    part->code = exec_exit_copy_text(code);
    part->message = exec_exit_copy_text(message);
    s->how_case = BERM__V1__EXIT_STATUS__HOW_LOST;
    s->lost = part;
    return true;
}

/* --- the exit that the guest reports --- */

static int exec_exit_signal_source(const struct exec *x, int number) {
    if (x->set && x->set->box->goal >= GOAL_STOP)
        return BERM__V1__SIGNAL_SOURCE__SIGNAL_SOURCE_STOP;
    return x->caller_signal == number ? BERM__V1__SIGNAL_SOURCE__SIGNAL_SOURCE_CALLER
                                      : BERM__V1__SIGNAL_SOURCE__SIGNAL_SOURCE_SANDBOX;
}

static bool exec_exit_fill(const struct exec *x, Berm__V1__ExitStatus *s,
                           const struct guest_exit *exit) {
    const Berm__V1__ExecSpec *spec = x->record->spec;
    char text[256];
    switch (exit->kind) {
    case GUEST_EXIT_CODE:
        s->how_case = BERM__V1__EXIT_STATUS__HOW_CODE;
        s->code = exit->number;
        return true;
    case GUEST_EXIT_SIGNAL:
        if (x->is_over_limit && exit->number == SIGKILL)
            return exec_exit_set_output_limit(s, x->set->box->record->spec->limits->output_bytes);
        return exec_exit_set_signal(s, exit->number, exec_exit_signal_source(x, exit->number));
    case GUEST_EXIT_TIMED_OUT:
        return exec_exit_set_timed_out(s, exit->number, spec->timeout_ms);
    case GUEST_EXIT_OUT_OF_MEMORY:
        return exec_exit_set_out_of_memory(
            s, x->set ? x->set->box->record->spec->limits->memory_bytes : 0);
    case GUEST_EXIT_OUTPUT_LIMIT:
        return exec_exit_set_output_limit(s, spec->output_limit_bytes);
    case GUEST_EXIT_NOT_STARTED:
        snprintf(text, sizeof text, "%.*s", (int)exit->message.n, exit->message.p);
        return exec_exit_set_not_started(s, exit->code, text);
    case GUEST_EXIT_UNKNOWN:
        break;
    }
    /* The guest reported no valid exit. */
    return exec_exit_set_lost(s, "GUEST_PROTOCOL", "the guest reported no valid exit");
}

/* --- usage --- */

void exec_read_usage(struct exec *x) {
    Berm__V1__ExecUsage *u = x->record->usage;
    if (x->cgroup_fd < 0 || !x->cgroup_is_dir || x->record->started_unix_ms == 0)
        return; /* before the start, the cgroup counts usage that is not the program's */
    struct exec_cgroup_usage now = {u->cpu_user_us, u->cpu_system_us, u->memory_peak_bytes,
                                    u->pids_peak};
    x->set->box->driver->exec_cgroups->read_usage(x->cgroup_fd, &now);
    u->cpu_user_us = now.cpu_user_us;
    u->cpu_system_us = now.cpu_system_us;
    u->memory_peak_bytes = now.memory_peak_bytes;
    u->pids_peak = now.pids_peak;
}

/* --- the end --- */

static void exec_exit_put_event(struct exec *x, struct entry *t) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__ExecExitEvent exited = BERM__V1__EXEC_EXIT_EVENT__INIT;
    const Berm__V1__SandboxSpec *spec = x->set->box->record->spec;
    box_event_init(x->set->box, &event, &actor, NULL, true, NULL);
    event.incarnation = x->record->incarnation;
    exited.exec_id = x->record->exec_id;
    exited.exit = x->record->exit;
    exited.usage = x->record->usage;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_EXEC_EXIT;
    event.body_case = BERM__V1__EVENT__BODY_EXEC_EXIT;
    event.exec_exit = &exited;
    x->record->changed_sequence = entry_event(t, &event, spec->n_labels, spec->labels);
}

void exec_record_exit(struct exec *x) {
    struct entry *t = ledger_begin(x->env->ledger);
    if (!t) {
        deadline_set(x->env->deadlines, &x->again, clock_us() + AGAIN_US);
        return;
    }
    exec_exit_put_event(x, t);
    entry_put_exec(t, &x->recorded, x->record, x->owner, x->number, x->cgroup);
    failpoint(FAIL_EXIT_INTENT);
    ledger_commit(t, NULL);
}

/* Attributes all OOM kills counted so far to execs that have ended. */
static void on_exec_cgroup_killed(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct execs *set = execs_of(p);
    if (!a->e)
        set->oom_kills_seen = MAX(set->oom_kills_seen, a->usage.oom_kills);
}

/* Ends the exec. Call this when the exit may be reported: it is in the status file, or no status
 * will arrive. */
static void exec_exit_finish(struct exec *x) {
    Berm__V1__Exec *record = x->record;
    struct execs *set = x->set;
    bool is_lost = x->exit->how_case == BERM__V1__EXIT_STATUS__HOW_LOST;
    exec_record(x);
    record->exit = TAKE(x->exit);
    exec_count_output(x);
    exec_read_usage(x);
    if (record->usage->memory_peak_bytes == 0) /* no cgroup measured the peak */
        record->usage->memory_peak_bytes = x->max_rss_bytes;
    if (x->cgroup && set->box->instance && !record->spec->keep_descendants)
        instance_kill_exec_cgroup(set->box->instance, x->cgroup, on_exec_cgroup_killed, NULL);
    record->state = is_lost ? EXEC_LOST : EXEC_EXITED;
    if (record->exited_unix_ms == 0)
        record->exited_unix_ms = clock_unix_ms();
    record->input->closed = true;
    x->env->n_lost_execs += is_lost && !x->env->is_recovered;
    exec_set_phase(x, PHASE_OVER);
    set->n_running--;
    set->box->ops->touch(set->box);
    exec_forget_input(x);
    exec_record_exit(x);
    exec_wake(x);
}

/* A program that SIGKILL ended may have hit the memory limit. If so, the memory controller has
 * counted an OOM kill. */
static void on_usage(struct instance *p, const struct instance_answer *a, void *user) {
    struct execs *set = execs_of(p);
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->number != (uint64_t)(uintptr_t)user || x->phase != PHASE_ENDING)
            continue;
        Berm__V1__ExitStatus *s = x->exit;
        if (!a->e && a->usage.oom_kills > set->oom_kills_seen) {
            free(s->signal);
            s->signal = NULL;
            if (!exec_exit_set_out_of_memory(s, set->box->record->spec->limits->memory_bytes))
                s->how_case = BERM__V1__EXIT_STATUS__HOW__NOT_SET;
        }
        set->oom_kills_seen = MAX(set->oom_kills_seen, a->e ? 0 : a->usage.oom_kills);
        exec_exit_finish(x);
        return;
    }
}

static bool exec_exit_may_be_out_of_memory(const struct exec *x) {
    const Berm__V1__ExitStatus *s = x->exit;
    return s->how_case == BERM__V1__EXIT_STATUS__HOW_SIGNAL &&
           s->signal->signal_number == SIGKILL &&
           s->signal->source == BERM__V1__SIGNAL_SOURCE__SIGNAL_SOURCE_SANDBOX &&
           x->set->box->instance && x->set->box->driver->usage;
}

/* The rest of the output is lost. Records the exit as LOST, because an exit code implies complete
 * output. */
static void exec_exit_lose_output(struct exec *x) {
    Berm__V1__ExitStatus *s = exec_exit_new();
    if (!s ||
        !exec_exit_set_lost(s, "GUEST_LOST", "a part of its output was lost with the guest")) {
        free(s);
        return;
    }
    berm__v1__exit_status__free_unpacked(x->exit, NULL);
    x->exit = s;
}

void exec_on_fetched(struct exec *x) {
    if (x->phase != PHASE_ENDING)
        return;
    if (x->fetch.is_broken)
        exec_exit_lose_output(x);
    else
        exec_fetch_write_status(x);
    if (exec_exit_may_be_out_of_memory(x))
        instance_measure(x->set->box->instance, on_usage, (void *)(uintptr_t)x->number);
    else
        exec_exit_finish(x);
}

static void exec_exit_begin(struct exec *x, Berm__V1__ExitStatus *s) {
    exec_set_phase(x, PHASE_ENDING);
    guest_wait_cancel(&x->start_wait);
    x->exit = s;
    if (exec_fetch_is_complete(x)) /* otherwise exec_on_fetched reports the exit */
        exec_on_fetched(x);
}

void exec_on_exited(struct exec *x, const struct guest_exec_state *state) {
    if (!exec_is_live(x) || !x->set)
        return;
    failpoint(FAIL_EXIT_ACK);
    Berm__V1__ExitStatus *s = exec_exit_new();
    if (!s || !exec_exit_fill(x, s, &state->exit)) {
        free(s); /* out of memory: the guest reports the exit again on the next link */
        return;
    }
    if (exec_fetch_is_used(x)) {
        exec_fetch_keep_status(x, state);
        exec_fetch_note(x, state->output_bytes);
    }
    bool has_run = s->how_case != BERM__V1__EXIT_STATUS__HOW_NOT_STARTED;
    if (has_run && x->record->started_unix_ms == 0)
        x->record->started_unix_ms = state->started_unix_ms;
    if (state->exited_unix_ms > 0)
        x->record->exited_unix_ms = state->exited_unix_ms;
    if (has_run)
        x->max_rss_bytes = state->max_rss_bytes;
    exec_exit_begin(x, s);
}

void exec_not_started(struct exec *x, const struct err *e) {
    Berm__V1__ExitStatus *s = exec_exit_new();
    if (s && exec_exit_set_not_started(s, err_face(e->code)->name, e->text))
        exec_exit_begin(x, s);
    else
        free(s);
}

/* --- without the guest --- */

static void exec_exit_take_file(struct exec *x) {
    char name[80], text[GUEST_STATUS_MAX + 2];
    struct guest_exec_state state;
    int dir = box_dir(x->set->box);
    exec_log_name(x, EXEC_FILE_STATUS, name, sizeof name);
    ssize_t n = dir < 0 ? -1 : fd_read_text(dir, name, text, sizeof text);
    struct arena a;
    if (n <= 0 || arena_init(&a, 8192, 65536) < 0)
        return;
    if (guest_exec_status_read((struct str){text, (size_t)n}, &a, &state) == 0)
        exec_on_exited(x, &state);
    arena_done(&a);
}

static void exec_exit_without_guest(struct exec *x) {
    if (x->cgroup_state == CGROUP_REQUESTED)
        exec_set_cgroup(x, CGROUP_NONE);
    if (x->phase == PHASE_SENT || x->phase == PHASE_RUNNING)
        exec_set_phase(x, PHASE_WAITING);
    if (exec_is_live(x))
        exec_exit_take_file(x);
    if (x->phase == PHASE_OVER)
        return;
    if (x->phase == PHASE_ENDING) { /* the missing output or OOM count will not arrive any more */
        if (!exec_fetch_is_complete(x))
            exec_exit_lose_output(x);
        exec_exit_finish(x);
        return;
    }
    Berm__V1__ExitStatus *s = exec_exit_new();
    if (s &&
        exec_exit_set_lost(s, "GUEST_LOST", "the guest ended and nobody saw this program's end"))
        exec_exit_begin(x, s);
    else
        free(s);
}

void execs_take_reported(struct execs *set) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (exec_is_live(x))
            exec_exit_take_file(x);
    }
}

void execs_gone(struct execs *set) {
    set->oom_kills_seen = 0;
    execs_cgroup_done(set);
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->phase != PHASE_OVER)
            exec_exit_without_guest(x);
    }
}
