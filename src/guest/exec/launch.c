#include "guest/exec/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/exec_filter.h"
#include "base/fd.h"

#define STACK_BYTES 16384
#define CHILD_FAILED 127

/* The steps of the child, in order. */
enum launch_step {
    STEP_CGROUP,
    STEP_SCORE,
    STEP_LOGIN,
    STEP_SESSION,
    STEP_STDIO,
    STEP_USER,
    STEP_CWD,
    STEP_FILTER,
    STEP_PROGRAM,
    STEP_OK
};

struct launch_attempt {
    const struct launch *l;
    enum launch_step step; /* the last step that the child reached */
    int error;             /* positive errno of that step; 0: the program runs */
    pid_t pid;
};

static int launch_child_cgroups(const struct launch *l) {
    for (size_t i = 0; i < l->n_cgroup_files; i++)
        if (write(l->cgroup_files[i], "0", 1) != 1)
            return -errno;
    return 0;
}

/* The out-of-memory killer takes programs before the guest. A program that lowers its score to the guest's
 * is still taken first if it is larger. User-space kernels such as gVisor may lack the file. */
static int launch_child_score(const struct launch *l) {
    (void)l;
    (void)!fd_write_text(AT_FDCWD, "/proc/self/oom_score_adj", "500");
    return 0;
}

/* The kernel lets nobody change the login uid once it is set, so no program can pose as another user in the
 * host's audit log. The write fails, harmlessly, on kernels without audit, and where the process that
 * started the sandbox had a login uid already. */
static int launch_child_login(const struct launch *l) {
    char uid[24];
    *str_put_u64(uid, l->user->uid) = '\0';
    (void)!fd_write_text(AT_FDCWD, "/proc/self/loginuid", uid);
    return 0;
}

static int launch_child_session(const struct launch *l) {
    /* A raw system call, because C libraries refuse to change signals 32 and 33. */
    const uint64_t plain[4] = {0}; /* the kernel's sigaction: SIG_DFL, no flags, empty mask */
    for (uint64_t left = l->ignored; left != 0; left &= left - 1)
        syscall(SYS_rt_sigaction, __builtin_ctzll(left) + 1, plain, NULL, sizeof(uint64_t));
    if (setsid() < 0)
        return -errno;
    if (l->terminal && ioctl(l->stdio[0], TIOCSCTTY, 0) < 0)
        return -errno;
    return 0;
}

static int launch_child_stdio(const struct launch *l) {
    for (int i = 0; i < 3; i++)
        if (dup2(l->stdio[i], i) < 0)
            return -errno;
    umask(022);
    return 0;
}

static int launch_child_user(const struct launch *l) {
    return user_become(l->user, l->privileges);
}

static int launch_child_cwd(const struct launch *l) {
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, l->cwd, &how, sizeof how);
    if (fd < 0 && errno == ENOSYS) /* a user-space kernel without openat2 */
        fd = open(l->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fchdir(fd) < 0)
        return -errno;
    return 0;
}

static int launch_child_filter(const struct launch *l) {
    struct sock_filter code[] = EXEC_FILTER_CODE;
    struct sock_fprog program = {EXEC_FILTER_LEN, code};
    if (l->privileges->is_filtered && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        return -errno;
    if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0) {
        if (errno != ENOSYS)
            return -errno;
        for (int fd = 3; fd < 65536; fd++)
            close(fd);
    }
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

/* Searches like execvp, but runs no shell for a file format that the kernel does not know. The error of a
 * candidate that exists wins over that of one that does not. */
static int launch_child_program(const struct launch *l) {
    int error = ENOENT;
    for (char **path = l->paths; *path; path++) {
        execve(*path, l->argv, l->env);
        if (errno == ENOENT && access(*path, F_OK) == 0)
            error = ENOEXEC; /* the interpreter is missing */
        else if (errno != ENOENT && errno != ENOTDIR)
            error = errno;
        if (error != ENOENT && error != EACCES)
            break;
    }
    return -error;
}

static int (*const launch_child_steps[])(const struct launch *l) = {
    [STEP_CGROUP] = launch_child_cgroups,  [STEP_SCORE] = launch_child_score,
    [STEP_LOGIN] = launch_child_login,     [STEP_SESSION] = launch_child_session,
    [STEP_STDIO] = launch_child_stdio,     [STEP_USER] = launch_child_user,
    [STEP_CWD] = launch_child_cwd,         [STEP_FILTER] = launch_child_filter,
    [STEP_PROGRAM] = launch_child_program,
};

static int launch_child_main(void *arg) {
    struct launch_attempt *a = arg;
    for (size_t i = 0; i < COUNT_OF(launch_child_steps); i++) {
        a->step = (enum launch_step)i;
        a->error = -launch_child_steps[i](a->l);
        if (a->error != 0)
            _exit(CHILD_FAILED);
    }
    _exit(CHILD_FAILED);
}

/* clone3 with vfork semantics and a separate stack; the C library has no wrapper for that combination. */
static long launch_clone3_vfork(struct clone_args *args, int (*fn)(void *), void *arg) {
#if defined(__x86_64__)
    long ret;
    register int (*r12)(void *) __asm__("r12") = fn;
    register void *r13 __asm__("r13") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(ret)
                     : "a"(SYS_clone3), "D"(args), "S"(sizeof *args), "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#elif defined(__aarch64__)
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)sizeof *args;
    register long x8 __asm__("x8") = SYS_clone3;
    register int (*x9)(void *) __asm__("x9") = fn;
    register void *x10 __asm__("x10") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, #0\n\t"
                     "mov x0, x10\n\t"
                     "blr x9\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x8), "r"(x9), "r"(x10)
                     : "memory", "cc");
    return x0;
#else
#error "berm-guest supports x86-64 and arm64"
#endif
}

/* Returns once the program runs or the child has failed. Fails with -errno when the clone
 * failed. */
static int launch_run_child(struct launch_attempt *a, uint8_t *stack) {
    if (a->l->exec_cgroup >= 0) {
        struct clone_args args = {
            .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
            .exit_signal = SIGCHLD,
            .stack = (uint64_t)(uintptr_t)stack,
            .stack_size = STACK_BYTES,
            .cgroup = (uint64_t)a->l->exec_cgroup,
        };
        long pid = launch_clone3_vfork(&args, launch_child_main, a);
        if (pid < 0)
            return (int)pid;
        a->pid = (pid_t)pid;
        return 0;
    }
    a->pid = clone(launch_child_main, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, a);
    return a->pid < 0 ? -errno : 0;
}

static int launch_error(const struct launch_attempt *a, int error, struct err *e) {
    const struct launch *l = a->l;
    if (error == EAGAIN || error == ENOMEM)
        return err_sys(e, ERR_LIMIT_REACHED, error, "start %s", l->argv[0]);
    if (a->step == STEP_CWD)
        return err_sys(e, ERR_CWD_NOT_FOUND, error, "chdir %s", l->cwd);
    if (a->step != STEP_PROGRAM)
        return err_sys(e, ERR_INTERNAL, error, "start %s, step %d", l->argv[0], (int)a->step);
    if (error == ENOENT)
        return err_sys(e, ERR_PROGRAM_NOT_FOUND, error, "%s", l->argv[0]);
    if (error == E2BIG)
        return err_sys(e, ERR_INVALID_ARGUMENT, error, "execve %s", l->argv[0]);
    return err_sys(e, ERR_PROGRAM_NOT_EXECUTABLE, error, "%s", l->argv[0]);
}

/* Returns 0 when the program runs. Otherwise returns a positive errno and leaves no child. The
 * child's stack is an array in this function, which blocks until the child no longer uses it. */
static int launch_start_child(struct launch_attempt *a) {
    uint8_t stack[STACK_BYTES] __attribute__((aligned(16)));
    int r = launch_run_child(a, stack);
    if (r < 0)
        return -r;
    if (a->error != 0)
        waitpid(a->pid, NULL, 0);
    return a->error;
}

/* The first message of a shepherd: whether the program runs. */
struct launch_report {
    enum launch_step step;
    int error;
    pid_t pid;
};

/* Waits until the leader exits, and reaps other descendants meanwhile. Leaves the leader unreaped: if the
 * shepherd is killed before it has reported, the guest inherits the leader and reaps it. */
static siginfo_t launch_shepherd_wait(pid_t leader) {
    siginfo_t info;
    for (;;) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0 && errno != EINTR)
            _exit(0);
        if (info.si_pid == leader)
            return info;
        if (info.si_pid > 0)
            waitpid(info.si_pid, NULL, 0);
    }
}

/* The main function of the shepherd: starts the program, reports the leader's exit, and exits when
 * no descendant is left. Closes all descriptors above 3, the pipe to the guest. Exits when it
 * cannot write to the pipe, because then the guest is gone. */
static void launch_shepherd_main(const struct launch *l, int pipe_fd) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    prctl(PR_SET_NAME, "berm-shepherd", 0, 0, 0);
    struct launch_attempt a = {.l = l};
    int error = launch_start_child(&a);
    struct launch_report report = {a.step, error, a.pid};
    if (write(pipe_fd, &report, sizeof report) != sizeof report || error != 0)
        _exit(0);
    dup2(pipe_fd, 3);
    fcntl(3, F_SETFD, FD_CLOEXEC);
    (void)!syscall(SYS_close_range, 4u, ~0u, 0u);
    siginfo_t info = launch_shepherd_wait(a.pid);
    bool by_code = info.si_code == CLD_EXITED;
    struct launch_end end = {.wait_status = by_code ? info.si_status << 8 : info.si_status};
    if (write(3, &end, sizeof end) != sizeof end)
        _exit(0);
    waitpid(a.pid, NULL, 0);
    pid_t other;
    do
        other = waitpid(-1, NULL, WNOHANG);
    while (other > 0);
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    end.max_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
    end.is_reaped = true;
    end.is_alone = other < 0; /* ECHILD: no process is left */
    if (write(3, &end, sizeof end) == sizeof end)
        while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
            continue;
    _exit(0);
}

static int launch_with_shepherd(const struct launch *l, struct launched *ret, struct err *e) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "make a pipe");
    pid_t shepherd = fork();
    if (shepherd == 0)
        launch_shepherd_main(l, fds[1]);
    int error = errno;
    close(fds[1]);
    if (shepherd < 0) {
        close(fds[0]);
        return err_sys(e, ERR_LIMIT_REACHED, error, "start the shepherd of %s", l->argv[0]);
    }
    struct launch_report report;
    ssize_t n;
    do
        n = read(fds[0], &report, sizeof report);
    while (n < 0 && errno == EINTR);
    if (n != sizeof report || report.error != 0) {
        close(fds[0]);
        waitpid(shepherd, NULL, 0);
        struct launch_attempt a = {.l = l, .step = n == sizeof report ? report.step : STEP_CGROUP};
        return launch_error(&a, n == sizeof report ? report.error : EAGAIN, e);
    }
    if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0) /* cannot fail on our own pipe */
        abort();
    *ret = (struct launched){.pid = report.pid, .shepherd = shepherd, .report = fds[0]};
    return 0;
}

int launch_program(const struct launch *l, struct launched *ret, struct err *e) {
    if (l->exec_cgroup < 0)
        return launch_with_shepherd(l, ret, e);
    struct launch_attempt a = {.l = l};
    int error = launch_start_child(&a);
    if (error != 0)
        return launch_error(&a, error, e);
    *ret = (struct launched){.pid = a.pid, .report = -1};
    return 0;
}
