/* exec_cgroup — a program's cgroup: made ahead in a sandbox whose programs come one after another, else when it
 * is asked for.
 *
 * Numbers: the program with number N may have 2N made for it, and the one made ahead after it is 2N + 1; so
 *          none is another's, and the next daemon knows the name of what this one had made and not used.
 * Ahead:   one per sandbox, from the moment an exit is durable; none in a sandbox that never ran anything, and
 *          none for longer than CGROUP_QUIET_US without use. CGROUPS_AHEAD_MAX in all.
 * Restart: what lies ready is of no use to a new daemon and is removed by it, as are those of programs that ended
 *          just before: the daemon may have been killed before it had asked for that. See execs_cgroup_sweep. */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "core/exec/exec_impl.h"

#define CGROUP_QUIET_US 10000000
#define CGROUP_RECENT_MS 60000
#define CGROUPS_AHEAD_MAX 256 /* each is a descriptor of ours and a memory cgroup of the kernel's */

static uint32_t exec_cgroup_of(uint64_t number) {
    return (uint32_t)(number << 1);
}

static uint32_t exec_cgroup_after(uint64_t number) {
    return (uint32_t)(number << 1 | 1);
}

static struct exec *exec_with_cgroup(struct execs *set, uint32_t cgroup) {
    LIST_FOR_EACH(node, &set->all) {
        struct exec *x = container_of(node, struct exec, in_set);
        if (x->cgroup == cgroup)
            return x;
    }
    return NULL;
}

static void give(struct exec *x, int fd) {
    struct stat st;
    exec_set_cgroup(x, fd >= 0 ? CGROUP_READY : CGROUP_NONE);
    x->cgroup_fd = fd;
    x->cgroup_is_dir = fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* --- the one made ahead --- */

static void forget_ahead(struct execs *set) {
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
    forget_ahead(set);
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
    forget_ahead(set);
}

/* --- asking --- */

/* By number, because the program may be gone when the answer comes, or only have come meanwhile. Without a
 * cgroup of its own the guest keeps a process above the program instead. */
static void on_exec_cgroup(struct instance *p, const struct instance_answer *a, void *user) {
    struct execs *set = execs_of(p);
    uint32_t cgroup = (uint32_t)(uintptr_t)user;
    struct exec *x = exec_with_cgroup(set, cgroup);
    int fd = !a->e && a->n_fds > 0 ? a->fds[0] : -1;
    for (size_t i = 1; !a->e && i < a->n_fds; i++)
        close(a->fds[i]);
    if (x && x->phase != PHASE_OVER) {
        give(x, fd);
        exec_go(x);
    } else if (cgroup == set->ahead.cgroup && fd >= 0) {
        set->ahead.fd = fd;
        deadline_set(set->box->env->deadlines, &set->ahead.quiet, clock_us() + CGROUP_QUIET_US);
        failpoint(FAIL_CGROUP_ACK);
    } else if (cgroup == set->ahead.cgroup) {
        forget_ahead(set); /* the next program asks for its own */
    } else if (fd >= 0) {
        close(fd);
        instance_kill_exec_cgroup(p, cgroup, NULL, NULL);
    }
}

static void ask(struct execs *set, uint32_t cgroup) {
    instance_make_exec_cgroups(set->box->instance, cgroup, 1, on_exec_cgroup,
                               (void *)(uintptr_t)cgroup);
}

static bool has_exec_cgroups(const struct execs *set) {
    return set->box->instance && set->box->driver->exec_cgroups;
}

/* In parallel with the commit of the intent: an empty cgroup without a program harms nobody and goes
 * with its sandbox. */
void exec_cgroup_request(struct exec *x) {
    if (!has_exec_cgroups(x->set))
        return;
    if (x->cgroup == 0)
        x->cgroup = exec_cgroup_of(x->number);
    exec_set_cgroup(x, CGROUP_REQUESTED);
    ask(x->set, x->cgroup);
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
    exec_set_cgroup(x, CGROUP_REQUESTED); /* while it is being made, the reply finds its exec */
    forget_ahead(set);
    if (fd >= 0)
        give(x, fd);
}

void exec_cgroup_return(struct exec *x) {
    if (x->set && x->cgroup != 0 && x->cgroup_state != CGROUP_REQUESTED && has_exec_cgroups(x->set))
        instance_kill_exec_cgroup(x->set->box->instance, x->cgroup, NULL, NULL);
}

void execs_cgroup_make_ahead(struct execs *set) {
    bool is_in_use = has_exec_cgroups(set) && set->box->instance_state == INST_UP &&
                     set->box->goal == GOAL_RUN && !set->box->env->is_closing;
    if (!is_in_use || set->newest == 0 || set->ahead.cgroup != 0 ||
        set->table->n_cgroups_ahead >= CGROUPS_AHEAD_MAX)
        return;
    set->ahead.cgroup = exec_cgroup_after(set->newest);
    set->table->n_cgroups_ahead++;
    ask(set, set->ahead.cgroup);
    failpoint(FAIL_CGROUP_SEND);
}

/* --- after a restart --- */

/* And its cgroup was to be removed. */
static bool has_just_ended(const struct db_exec *row) {
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
    if (!has_exec_cgroups(set))
        return;
    if (!set->cgroups_are_swept) /* nobody runs in it: a program that had taken it would be the newest itself */
        instance_kill_exec_cgroup(set->box->instance, exec_cgroup_after(row->number), NULL, NULL);
    set->cgroups_are_swept = true;
    if (has_just_ended(row))
        instance_kill_exec_cgroup(set->box->instance, row->cgroup, NULL, NULL);
}
