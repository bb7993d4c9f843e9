/* exec_cgroup — a program's cgroup: made ahead in a sandbox whose programs come one after another, else when it
 * is asked for.
 *
 * Numbers: the program with number N may have 2N made for it, and the one made ahead after it is 2N + 1; so
 *          none is another's, and the next daemon knows the name of what this one had made and not used.
 * Ahead:   one per sandbox, from the moment an exit is durable; none in a sandbox that never ran anything, and
 *          none for longer than CGROUP_QUIET_US without use. CGROUPS_AHEAD_MAX in all.
 * Restart: what lies ready is of no use to a new daemon and is removed by it, as are those of programs that ended
 *          just before: the daemon may have been killed before it had asked for that. See exec_cgroup_sweep. */
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

static struct exec *exec_with_cgroup(struct sandbox *sb, uint32_t cgroup) {
    LIST_FOR_EACH(node, &sb->execs) {
        struct exec *x = container_of(node, struct exec, in_sandbox);
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

static void forget_ahead(struct sandbox *sb) {
    struct exec_cgroup_ahead *ahead = &sb->ahead;
    deadline_clear(sb->registry->env.deadlines, &ahead->quiet);
    sb->registry->n_cgroups_ahead -= ahead->cgroup != 0;
    ahead->cgroup = 0;
    ahead->fd = -1;
}

static void on_quiet(struct deadline *d) {
    struct sandbox *sb = container_of(d, struct sandbox, ahead.quiet);
    uint32_t cgroup = sb->ahead.cgroup;
    close(sb->ahead.fd);
    forget_ahead(sb);
    if (sb->instance)
        instance_kill_exec_cgroup(sb->instance, cgroup, NULL, NULL);
    failpoint(FAIL_CGROUP_BACK);
}

void exec_cgroup_ahead_init(struct sandbox *sb) {
    sb->ahead.fd = -1;
    deadline_init(&sb->ahead.quiet, on_quiet);
}

void exec_cgroup_ahead_done(struct sandbox *sb) {
    if (sb->ahead.fd >= 0)
        close(sb->ahead.fd);
    forget_ahead(sb);
}

/* --- asking --- */

/* By number, because the program may be gone when the answer comes, or only have come meanwhile. Without a
 * cgroup of its own the guest keeps a process above the program instead. */
static void on_exec_cgroup(struct instance *p, const struct instance_answer *a, void *user) {
    struct sandbox *sb = p->user;
    uint32_t cgroup = (uint32_t)(uintptr_t)user;
    struct exec *x = exec_with_cgroup(sb, cgroup);
    int fd = !a->e && a->n_fds > 0 ? a->fds[0] : -1;
    for (size_t i = 1; !a->e && i < a->n_fds; i++)
        close(a->fds[i]);
    if (x && x->phase != PHASE_OVER) {
        give(x, fd);
        exec_go(x);
    } else if (cgroup == sb->ahead.cgroup && fd >= 0) {
        sb->ahead.fd = fd;
        deadline_set(sb->registry->env.deadlines, &sb->ahead.quiet, clock_us() + CGROUP_QUIET_US);
        failpoint(FAIL_CGROUP_ACK);
    } else if (cgroup == sb->ahead.cgroup) {
        forget_ahead(sb); /* the next program asks for its own */
    } else if (fd >= 0) {
        close(fd);
        instance_kill_exec_cgroup(p, cgroup, NULL, NULL);
    }
}

static void ask(struct sandbox *sb, uint32_t cgroup) {
    instance_make_exec_cgroups(sb->instance, cgroup, 1, on_exec_cgroup, (void *)(uintptr_t)cgroup);
}

static bool has_exec_cgroups(const struct sandbox *sb) {
    return sb->instance && sb->driver->exec_cgroups;
}

/* In parallel with the commit of the intent: an empty cgroup without a program harms nobody and goes
 * with its sandbox. */
void exec_cgroup_request(struct exec *x) {
    if (!has_exec_cgroups(x->sandbox))
        return;
    if (x->cgroup == 0)
        x->cgroup = exec_cgroup_of(x->number);
    exec_set_cgroup(x, CGROUP_REQUESTED);
    ask(x->sandbox, x->cgroup);
}

void exec_cgroup_take(struct exec *x) {
    struct sandbox *sb = x->sandbox;
    int fd = sb->ahead.fd;
    sb->newest_exec = x->number;
    if (sb->ahead.cgroup == 0) {
        exec_cgroup_request(x);
        return;
    }
    x->cgroup = sb->ahead.cgroup;
    exec_set_cgroup(x, CGROUP_REQUESTED); /* while it is being made, the reply finds its exec */
    forget_ahead(sb);
    if (fd >= 0)
        give(x, fd);
}

void exec_cgroup_return(struct exec *x) {
    if (x->sandbox && x->cgroup != 0 && x->cgroup_state != CGROUP_REQUESTED &&
        has_exec_cgroups(x->sandbox))
        instance_kill_exec_cgroup(x->sandbox->instance, x->cgroup, NULL, NULL);
}

void exec_cgroup_make_ahead(struct sandbox *sb) {
    bool is_in_use = has_exec_cgroups(sb) && sb->instance_state == INST_UP &&
                     sb->goal == GOAL_RUN && !sb->registry->env.is_closing;
    if (!is_in_use || sb->newest_exec == 0 || sb->ahead.cgroup != 0 ||
        sb->registry->n_cgroups_ahead >= CGROUPS_AHEAD_MAX)
        return;
    sb->ahead.cgroup = exec_cgroup_after(sb->newest_exec);
    sb->registry->n_cgroups_ahead++;
    ask(sb, sb->ahead.cgroup);
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

void exec_cgroup_sweep(struct sandbox *sb, const struct db_exec *row) {
    if (!has_exec_cgroups(sb))
        return;
    if (!sb->cgroups_are_swept) /* nobody runs in it: a program that had taken it would be the newest itself */
        instance_kill_exec_cgroup(sb->instance, exec_cgroup_after(row->number), NULL, NULL);
    sb->cgroups_are_swept = true;
    if (has_just_ended(row))
        instance_kill_exec_cgroup(sb->instance, row->cgroup, NULL, NULL);
}
