#include "spawn/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include "spawn/caps.h"
#include "spawn/enter_mounts.h"
#include "spawn/seccomp.h"
#include "spawn/spawn.h"
#include "spawn/sys.h"

/* For v1 only; on v2 the clone itself set the cgroup. Must run before the new cgroup namespace,
 * which makes the current cgroup its root: /proc/self/cgroup then shows "/" and no host path. */
static int enter_join_cgroup(struct enter *e) {
    for (unsigned i = 0; i < e->seat.n_tasks; i++) {
        long n = sys_write(e->seat.tasks[i], "0", 1);
        if (n < 0)
            return (int)n;
    }
    return (int)sys1(SYS_unshare, CLONE_NEWCGROUP);
}

/* Makes the child die with its parent. Until its last steps the child shares the parent's
 * descriptors and so the lock on the state, and must not continue alone. The kernel clears this
 * setting when ids change, so it is set again after that. */
static int enter_tie_to_parent(struct enter *e) {
    int r = (int)sys5(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (r < 0)
        return r;
    /* If the parent died before the prctl, no signal comes, and getppid() is useless in a new PID
     * namespace. So poll its pidfd. */
    struct pollfd parent = {.fd = e->parent, .events = POLLIN};
    struct timespec now = {0};
    long n = sys5(SYS_ppoll, (long)&parent, 1, (long)&now, 0, 0);
    return n == 0 ? 0 : n < 0 ? (int)n : -ESRCH;
}

static int enter_untie(struct enter *e) {
    return e->is_tied ? 0 : (int)sys5(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

static int enter_wait_phase(struct enter *e, int wanted) {
    for (;;) {
        int now = __atomic_load_n(&e->phase, __ATOMIC_ACQUIRE);
        if (now == ENTER_ABORT)
            return -ECANCELED;
        if (now >= wanted)
            return 0;
        sys6(SYS_futex, (long)&e->phase, FUTEX_WAIT, now, 0, 0, 0);
    }
}

/* Forbids nested namespaces even without the filter, and keeps one sandbox from using up the
 * inotify instances that all sandboxes share. */
static int enter_limit_namespaces(struct enter *e) {
    static const struct {
        const char *path, *value;
    } limits[] = {
        {"max_user_namespaces", "0"},     {"max_mnt_namespaces", "0"},
        {"max_net_namespaces", "0"},      {"max_pid_namespaces", "0"},
        {"max_ipc_namespaces", "0"},      {"max_uts_namespaces", "0"},
        {"max_cgroup_namespaces", "0"},   {"max_time_namespaces", "0"},
        {"max_inotify_instances", "128"},
    };
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        int fd = sys_openat(e->sysctl, limits[i].path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0);
        if (fd < 0)
            return fd;
        long n = sys_write(fd, limits[i].value, limits[i].value[1] == '\0' ? 1 : 3);
        sys_close(fd);
        if (n < 0)
            return (int)n;
    }
    return 0;
}

static int enter_become_inner_root(struct enter *e) {
    (void)e;
    uint64_t no_signals = 0;
    long r = sys2(SYS_setgroups, 0, 0);
    if (r == 0)
        r = sys3(SYS_setresgid, 0, 0, 0);
    if (r == 0)
        r = sys3(SYS_setresuid, 0, 0, 0);
    if (r == 0)
        r = MIN(sys0(SYS_setsid), 0);
    if (r == 0)
        r = sys4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&no_signals, 0, sizeof no_signals);
    sys1(SYS_umask, 022);
    return (int)r;
}

static int enter_name_host(struct enter *e) {
    size_t n = 0;
    while (e->hostname[n] != '\0')
        n++;
    return (int)sys2(SYS_sethostname, (long)e->hostname, (long)n);
}

static int enter_limit_one(int resource, uint64_t soft, uint64_t hard) {
    struct {
        uint64_t soft, hard;
    } now, next;
    long r = sys4(SYS_prlimit64, 0, resource, 0, (long)&now);
    if (r < 0)
        return (int)r;
    next.hard = MIN(hard, now.hard); /* raising it would need a privilege on the host */
    next.soft = MIN(soft, next.hard);
    return (int)sys4(SYS_prlimit64, 0, resource, (long)&next, 0);
}

static int enter_limit_resources(struct enter *e) {
    static const struct {
        int resource;
        uint64_t soft, hard;
    } limits[] = {
        {RLIMIT_NOFILE, 4096, 65536},
        {RLIMIT_CORE, 1, 1}, /* 0 does not stop a core handler behind a pipe on the host; 1 does */
        {RLIMIT_MEMLOCK, 65536, 65536},
        {RLIMIT_MSGQUEUE, 65536, 65536},
        {RLIMIT_SIGPENDING, 4096, 4096},
        {RLIMIT_STACK, 8u << 20, RLIM_INFINITY},
        {RLIMIT_RTPRIO, 0, 0},
        {RLIMIT_NICE, 0, 0},
        {RLIMIT_NPROC, 8192,
         8192}, /* per uid slot, so per sandbox; the pids cgroup is more precise */
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < COUNT_OF(limits); i++)
        r = enter_limit_one(limits[i].resource, limits[i].soft, limits[i].hard);
    if (r == 0 && e->file_bytes != 0)
        r = enter_limit_one(RLIMIT_FSIZE, e->file_bytes, e->file_bytes);
    return r;
}

static int enter_scope_landlock(struct enter *e) {
    return e->landlock ? landlock_apply_scopes() : 0;
}

static int enter_bound_caps(struct enter *e) {
    return caps_bound(e->caps, e->last_cap);
}

static int enter_drop_caps(struct enter *e) {
    long r = sys5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    return r < 0 ? (int)r : caps_apply(e->caps);
}

static int enter_filter_calls(struct enter *e) {
    return seccomp_apply((e->flags & SPAWN_CREATE_STRICT_PROC) != 0 ||
                             (e->flags & SPAWN_CREATE_NO_PTRACE) != 0,
                         e->no_marks);
}

/* Leaves open only 0, 1, 2, the control socket as 3, and the program as 4, which closes on exec. */
static int enter_arrange_fds(struct enter *e) {
    enum { ABOVE = 16 };
    /* Copies the descriptor table without the descriptors that are held for other sandboxes. */
    long r = sys3(SYS_close_range, SPAWN_HELD_FD, ~0u, 2 /* CLOSE_RANGE_UNSHARE */);
    if (r < 0)
        return (int)r;
    int sources[5] = {e->stdio[0], e->stdio[1], e->stdio[2], e->control, e->guest};
    int null = sys_openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC, 0);
    for (int i = 0; i < 5; i++) {
        int from = i < 3 && sources[i] < 0 ? null : sources[i];
        sources[i] = from < 0 ? -1 : (int)sys3(SYS_fcntl, from, F_DUPFD_CLOEXEC, ABOVE);
        if (from >= 0 && sources[i] < 0)
            return sources[i];
    }
    for (int i = 0; i < 5; i++) {
        r = sources[i] < 0 ? sys_close(i) : sys3(SYS_dup3, sources[i], i, i == 4 ? O_CLOEXEC : 0);
        if (r < 0 && sources[i] >= 0)
            return (int)r;
    }
    return (int)sys3(SYS_close_range, 5, ~0u, 0);
}

static int enter_run_guest(struct enter *e) {
    return (int)sys5(SYS_execveat, 4, (long)"", (long)e->argv, (long)e->env, AT_EMPTY_PATH);
}

static int enter_wait_mapped(struct enter *e) {
    return enter_wait_phase(e, ENTER_MAPPED);
}
static int enter_wait_mounts(struct enter *e) {
    return enter_wait_phase(e, ENTER_MOUNTS);
}

/* The protections, in the order in which they are applied. When one fails, the reply names it. None
 * is skipped: a sandbox that lacks a protection does not start. Steps that do not need the mapped
 * ids or the root come first, because the parent prepares those meanwhile. */
static const struct {
    enum spawn_step step;
    int (*apply)(struct enter *e);
} steps[] = {
    {STEP_CLONE, enter_tie_to_parent},
    {STEP_ATTACH_CGROUP, enter_join_cgroup},
    {STEP_RLIMIT, enter_limit_resources},
    {STEP_CAPS, enter_bound_caps},
    {STEP_IDMAP, enter_wait_mapped},
    {STEP_IDENTITY, enter_become_inner_root},
    {STEP_IDENTITY, enter_tie_to_parent},
    {STEP_HOSTNAME, enter_name_host},
    {STEP_PROC, enter_stage_proc},
    {STEP_DEV, enter_stage_dev},
    /* not earlier, because a detached mount counts as a namespace */
    {STEP_NAMESPACE_LIMITS, enter_limit_namespaces},
    {STEP_OVERLAY, enter_wait_mounts},
    {STEP_MOUNT, enter_attach_mounts},
    {STEP_ROOT, enter_switch_root},
    {STEP_FDS, enter_arrange_fds},
    {STEP_FDS, enter_untie},
    {STEP_LANDLOCK, enter_scope_landlock},
    {STEP_CAPS, enter_drop_caps},
    {STEP_SECCOMP, enter_filter_calls},
    {STEP_EXEC, enter_run_guest},
};

static int enter_child(void *arg) {
    struct enter *e = arg;
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        e->step = steps[i].step;
        int r = steps[i].apply(e);
        if (r < 0) {
            e->error = -r;
            return 127;
        }
    }
    return 127;
}

int enter_clone(struct enter *e, void *stack, size_t stack_bytes, int *ret_pidfd) {
    e->phase = ENTER_WAIT;
    e->error = 0;
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
        .exit_signal = SIGCHLD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .parent_tid = (uint64_t)(uintptr_t)&e->tid,
        .child_tid = (uint64_t)(uintptr_t)&e->tid,
        .stack = (uint64_t)(uintptr_t)stack,
        .stack_size = stack_bytes,
    };
    if (e->seat.v2_cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)e->seat.v2_cgroup;
    }
    long pid = sys_clone_on_stack(&args, enter_child, e);
    if (pid < 0)
        return (int)pid;
    *ret_pidfd = pidfd;
    return (int)pid;
}

void enter_release(struct enter *e, enum enter_phase phase) {
    __atomic_store_n(&e->phase, (int)phase, __ATOMIC_RELEASE);
    sys6(SYS_futex, (long)&e->phase, FUTEX_WAKE, 1, 0, 0, 0);
}

int enter_wait(struct enter *e) {
    for (;;) {
        int tid = __atomic_load_n(&e->tid, __ATOMIC_ACQUIRE);
        if (tid == 0)
            break;
        sys6(SYS_futex, (long)&e->tid, FUTEX_WAIT, tid, 0, 0, 0);
    }
    if (e->error != 0)
        return -e->error;
    return e->step == STEP_EXEC ? 0 : -ECHILD; /* killed before exec */
}
