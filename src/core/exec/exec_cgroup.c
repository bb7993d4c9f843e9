/* exec_cgroup — the exec cgroup: created ahead in a sandbox that runs one exec after another, else
 * on request.
 *
 * Numbers: the exec with number N gets cgroup 2N on request; the cgroup created ahead after it is
 *          2N + 1. So no number is used twice, and the next daemon knows the number of an unused
 *          cgroup.
 * Ahead:   one per sandbox, requested when an exit is durable; none in a sandbox that never ran an
 *          exec, and none for longer than CGROUP_QUIET_US without use. CGROUPS_AHEAD_MAX in all.
 * Restart: a new daemon removes the cgroup that was created ahead, and those of execs that ended
 *          just before, because the last daemon may have been killed before it removed them: see
 *          execs_cgroup_sweep. */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "core/exec/exec_impl.h"

#define CGROUP_QUIET_US 10000000
#define CGROUP_RECENT_MS 60000
#define CGROUPS_AHEAD_MAX 256 /* each costs a descriptor and a memory cgroup */

static uint32_t exec_cgroup_of(uint64_t number) {
    return (uint32_t)(number << 1);
}

static uint32_t exec_cgroup_after(uint64_t number) {
    return (uint32_t)(number << 1 | 1);
}

static struct exec *exec_cgroup_find_exec(struct execs *set, uint32_t cgroup) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->cgroup == cgroup)
            return x;
    }
    return NULL;
}

static void exec_cgroup_give(struct exec *x, int fd) {
    struct stat st;
    exec_set_cgroup(x, fd >= 0 ? CGROUP_READY : CGROUP_NONE);
    x->cgroup_fd = fd;
    x->cgroup_is_dir = fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- the cgroup created ahead --- */

static void exec_cgroup_forget_ahead(struct execs *set) {
    struct exec_cgroup_ahead *ahead = &set->ahead;
    deadline_clear(set->box->env->deadlines, &ahead->quiet);
    set->table->n_cgroups_ahead -= ahead->cgroup != 0;
    ahead->cgroup = 0;
    ahead->fd = -1;
}

static void on_quiet(struct deadline *d) {
    struct execs *set = container_of(d, struct execs, ahead.quiet);
    uint32_t cgroup = set->ahead.cgroup;
    close(set->ahead.fd);
    exec_cgroup_forget_ahead(set);
    if (set->box->instance)
        instance_kill_exec_cgroup(set->box->instance, cgroup, NULL, NULL);
    failpoint(FAIL_CGROUP_BACK);
}

void execs_cgroup_init(struct execs *set) {
    set->ahead.fd = -1;
    deadline_init(&set->ahead.quiet, on_quiet);
}

void execs_cgroup_done(struct execs *set) {
    if (set->ahead.fd >= 0)
        close(set->ahead.fd);
    exec_cgroup_forget_ahead(set);
}

/* --- requests to the driver --- */

/* Finds the exec by cgroup number, because since the request the exec may have been freed, or
 * another exec may have taken the cgroup. Without a cgroup, the guest uses a shepherd process
 * instead. */
static void on_exec_cgroup(struct instance *p, const struct instance_answer *a, void *user) {
    struct execs *set = execs_of(p);
    uint32_t cgroup = (uint32_t)(uintptr_t)user;
    struct exec *x = exec_cgroup_find_exec(set, cgroup);
    int fd = !a->e && a->n_fds > 0 ? a->fds[0] : -1;
    for (size_t i = 1; !a->e && i < a->n_fds; i++)
        close(a->fds[i]);
    if (x && x->phase != PHASE_OVER) {
        exec_cgroup_give(x, fd);
        exec_go(x);
    } else if (cgroup == set->ahead.cgroup && fd >= 0) {
        set->ahead.fd = fd;
        deadline_set(set->box->env->deadlines, &set->ahead.quiet, clock_us() + CGROUP_QUIET_US);
        failpoint(FAIL_CGROUP_ACK);
    } else if (cgroup == set->ahead.cgroup) {
        exec_cgroup_forget_ahead(set); /* the next exec requests its own cgroup */
    } else if (fd >= 0) {
        close(fd);
        instance_kill_exec_cgroup(p, cgroup, NULL, NULL);
    }
}

static void exec_cgroup_ask(struct execs *set, uint32_t cgroup) {
    instance_make_exec_cgroups(set->box->instance, cgroup, 1, on_exec_cgroup,
                               (void *)(uintptr_t)cgroup);
}

static bool exec_cgroup_is_available(const struct execs *set) {
    return set->box->instance && set->box->driver->exec_cgroups;
}

/* Requests the cgroup while the intent is being committed. If the commit fails, the empty cgroup
 * does no harm and is removed with its sandbox. */
void exec_cgroup_request(struct exec *x) {
    if (!exec_cgroup_is_available(x->set))
        return;
    if (x->cgroup == 0)
        x->cgroup = exec_cgroup_of(x->number);
    exec_set_cgroup(x, CGROUP_REQUESTED);
    exec_cgroup_ask(x->set, x->cgroup);
}

void exec_cgroup_take(struct exec *x) {
    struct execs *set = x->set;
    int fd = set->ahead.fd;
    set->newest = x->number;
    if (set->ahead.cgroup == 0) {
        exec_cgroup_request(x);
        return;
    }
    x->cgroup = set->ahead.cgroup;
    /* If the driver is still creating the cgroup, on_exec_cgroup finds the exec. */
    exec_set_cgroup(x, CGROUP_REQUESTED);
    exec_cgroup_forget_ahead(set);
    if (fd >= 0)
        exec_cgroup_give(x, fd);
}

void exec_cgroup_return(struct exec *x) {
    if (x->set && x->cgroup != 0 && x->cgroup_state != CGROUP_REQUESTED &&
        exec_cgroup_is_available(x->set))
        instance_kill_exec_cgroup(x->set->box->instance, x->cgroup, NULL, NULL);
}

void execs_cgroup_make_ahead(struct execs *set) {
    bool is_in_use = exec_cgroup_is_available(set) && set->box->instance_state == INST_UP &&
                     set->box->goal == GOAL_RUN && !set->box->env->is_closing;
    if (!is_in_use || set->newest == 0 || set->ahead.cgroup != 0 ||
        set->table->n_cgroups_ahead >= CGROUPS_AHEAD_MAX)
        return;
    set->ahead.cgroup = exec_cgroup_after(set->newest);
    set->table->n_cgroups_ahead++;
    exec_cgroup_ask(set, set->ahead.cgroup);
    failpoint(FAIL_CGROUP_SEND);
}

/* --- after a restart --- */

/* Returns whether the exec ended just before the restart and its cgroup must not outlive it. */
static bool exec_cgroup_just_ended(const struct db_exec *row) {
    Berm__V1__Exec *record = NULL;
    if (row->cgroup != 0 && (row->state == EXEC_EXITED || row->state == EXEC_LOST))
        record = berm__v1__exec__unpack(NULL, row->record.n, (const uint8_t *)row->record.p);
    bool is_so = record && record->spec && !record->spec->keep_descendants &&
                 record->exited_unix_ms > clock_unix_ms() - CGROUP_RECENT_MS;
    if (record)
        berm__v1__exec__free_unpacked(record, NULL);
    return is_so;
}

void execs_cgroup_sweep(struct execs *set, const struct db_exec *row) {
    if (!exec_cgroup_is_available(set))
        return;
    if (!set->cgroups_are_swept) /* unused, because an exec that took it would be the newest */
        instance_kill_exec_cgroup(set->box->instance, exec_cgroup_after(row->number), NULL, NULL);
    set->cgroups_are_swept = true;
    if (exec_cgroup_just_ended(row))
        instance_kill_exec_cgroup(set->box->instance, row->cgroup, NULL, NULL);
}
