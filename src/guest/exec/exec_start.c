#include "guest/exec/exec_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "guest/exec/exec.h"
#include "guest/exec/exec_spec.h"
#include "guest/exec/pty.h"
#include "guest/guest.h"
#include "guest/params.h"

/* Creates an output log when the connection cannot pass descriptors. */
static int exec_start_make_log(void) {
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | O_APPEND, 0600);
    if (fd < 0)
        fd = memfd_create("berm-output", MFD_CLOEXEC);
    return fd;
}

/* Moves a descriptor out of the request. */
static int exec_start_take_fd(struct request *r, int fd) {
    for (size_t i = 0; i < r->n_fds; i++)
        if (r->fds[i] == fd)
            r->fds[i] = -1;
    return fd;
}

/* A log owns its descriptor as soon as outlog_init succeeds. */
static int exec_start_open_log(struct request *r, struct exec *x, size_t i, int passed,
                               struct err *e) {
    struct outlog *log = &x->output.logs[i];
    if (!x->output.owns_logs) {
        int error = outlog_init(log, passed);
        if (error < 0)
            return err_field(e, "fd_roles",
                             "log %zu must be an empty regular file open for writing: %s", i,
                             strerror(-error));
        exec_start_take_fd(r, passed);
        return 0;
    }
    int fd = exec_start_make_log();
    int error = fd < 0 ? -errno : outlog_init(log, fd);
    if (error < 0 && fd >= 0)
        close(fd);
    return error < 0 ? err_field(e, "fd_roles", "make log %zu: %s", i, strerror(-error)) : 0;
}

static int exec_start_open_logs(struct request *r, const struct exec_spec *s, struct exec *x,
                                struct err *e) {
    struct exec_output *out = &x->output;
    out->n_logs = exec_spec_is_merged(s) ? 1 : 2;
    out->owns_logs = r->n_fds == 0;
    for (size_t i = 0; i < out->n_logs; i++)
        if (exec_start_open_log(r, x, i, s->fds[i == 0 ? ROLE_STDOUT : ROLE_STDERR], e) < 0)
            return -(int)e->code;
    struct stat st;
    if (s->fds[ROLE_STATUS] < 0)
        return 0;
    if (fstat(s->fds[ROLE_STATUS], &st) < 0 || !S_ISREG(st.st_mode))
        return err_field(e, "fd_roles", "status must be a regular file");
    x->end.status_fd = exec_start_take_fd(r, s->fds[ROLE_STATUS]);
    return 0;
}

static void exec_start_apply(struct exec *x, const struct exec_spec *s) {
    x->output.policy = (enum exec_policy)s->policy;
    x->output.limit_bytes = x->output.granted_bytes = (uint64_t)s->limit_bytes;
    x->keep_descendants = s->keep_descendants;
    x->end.grace_ms = s->grace_ms < 0    ? 0
                      : s->grace_ms == 0 ? GRACE_DEFAULT_MS
                                         : (uint64_t)s->grace_ms;
    if (!s->has_pipe && !s->has_terminal)
        exec_state_set_stdin(&x->input.state, STDIN_CLOSED);
}

/* Both ends are blocking; exec_start_set_nonblock makes the guest's end non-blocking. */
static int exec_start_make_pipe(int *ret_read, int *ret_write) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return 0;
}

/* Sets O_NONBLOCK without reading the flags first, because a new pipe has no flags to keep. */
static int exec_start_set_nonblock(int fd) {
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int exec_start_open_input(struct exec *x, struct exec_spec *s) {
    int mine = -1, r = 0;
    if (!s->has_pipe) {
        s->launch.stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (s->launch.stdio[0] >= 0)
            return 0;
    }
    r = exec_start_make_pipe(&s->launch.stdio[0], &mine);
    if (r < 0)
        return r;
    if (!s->has_pipe) { /* the image has no /dev/null; a pipe without a writer reads the same */
        close(mine);
        return 0;
    }
    r = exec_start_set_nonblock(mine);
    if (r == 0)
        r = exec_input_open(x, mine);
    if (r < 0)
        close(mine);
    return r;
}

static int exec_start_open_output(struct exec *x, struct exec_spec *s, enum exec_output_id id) {
    int mine = -1;
    int r = exec_start_make_pipe(&mine, &s->launch.stdio[1 + id]);
    if (r < 0)
        return r;
    r = exec_start_set_nonblock(mine);
    if (r == 0)
        r = exec_output_open(x, id, mine);
    if (r < 0)
        close(mine);
    return r;
}

static int exec_start_open_terminal(struct exec *x, struct exec_spec *s) {
    int *stdio = s->launch.stdio;
    int r = pty_open(&s->user, (uint16_t)s->cols, (uint16_t)s->rows, &x->terminal, &stdio[0]);
    if (r < 0)
        return r;
    stdio[1] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
    stdio[2] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
    s->launch.terminal = true;
    return exec_output_open(x, EXEC_STDOUT, x->terminal);
}

/* Opens the program's stdin, stdout and stderr. The exec owns the guest's ends from here on, even when a
 * later step fails. */
static int exec_start_open_stdio(struct exec *x, struct exec_spec *s) {
    int *stdio = s->launch.stdio;
    if (s->has_terminal)
        return exec_start_open_terminal(x, s);
    int r = exec_start_open_input(x, s);
    if (r == 0)
        r = exec_start_open_output(x, s, EXEC_STDOUT);
    if (r < 0)
        return r;
    if (!s->merge_stderr)
        return exec_start_open_output(x, s, EXEC_STDERR);
    stdio[2] = fcntl(stdio[1], F_DUPFD_CLOEXEC, 3);
    return stdio[2] < 0 ? -errno : 0;
}

/* The signals that the guest ignores. execve keeps them ignored; it resets all others by itself. */
static uint64_t exec_start_ignored_signals(void) {
    uint64_t ignored = 0, now[4]; /* the kernel's sigaction, which starts with the handler */
    for (int sig = 1; sig <= 64; sig++)
        if (syscall(SYS_rt_sigaction, sig, NULL, now, sizeof now[0]) == 0 &&
            now[0] == (uint64_t)(uintptr_t)SIG_IGN)
            ignored |= UINT64_C(1) << (sig - 1);
    return ignored;
}

static int exec_start_launch(struct request *r, struct exec *x, struct exec_spec *s,
                             struct err *e) {
    int *stdio = s->launch.stdio;
    stdio[0] = stdio[1] = stdio[2] = -1;
    int error = exec_start_open_stdio(x, s);
    struct launched got;
    if (error < 0)
        err_sys(e, ERR_LIMIT_REACHED, -error, "make %s", s->has_terminal ? "a terminal" : "pipes");
    else
        error = launch_program(&s->launch, &got, e);
    for (int i = 0; error == 0 && !s->has_terminal && i < (s->merge_stderr ? 1 : 2); i++)
        x->output.streams[i].write_end = TAKE_FD(stdio[1 + i]);
    fd_close_all(stdio, 3);
    if (error < 0)
        return -(int)e->code;
    x->tree = (struct tree){.cgroup = exec_start_take_fd(r, s->launch.exec_cgroup),
                            .leader = got.pid,
                            .shepherd = got.shepherd};
    x->session = got.pid;
    exec_state_set_processes(&x->processes, PROCESSES_LEADER);
    exec_state_set_life(&x->life, EXEC_RUNNING);
    if (got.report >= 0)
        exec_end_watch_report(x, got.report);
    exec_end_start_timeout(x, s->timeout_ms);
    return 0;
}

static int exec_start_try(struct request *r, struct exec *x, struct exec_spec *s, struct err *e) {
    if (exec_spec_resolve(r, s, e) < 0)
        return -(int)e->code;
    if (r->guest->execs->ignored == 0) /* true once only: the guest ignores at least SIGPIPE */
        r->guest->execs->ignored = exec_start_ignored_signals();
    s->launch.ignored = r->guest->execs->ignored;
    return exec_start_launch(r, x, s, e);
}

static int exec_start_check_limits(const struct guest *g, struct err *e) {
    const struct execs *all = g->execs;
    if (all->count >= EXECS_MAX)
        return err_set(e, ERR_LIMIT_REACHED, "the guest remembers %zu execs, the maximum",
                       all->count);
    if (all->running >= EXECS_RUNNING_MAX)
        return err_set(e, ERR_LIMIT_REACHED, "%zu execs are running, the maximum", all->running);
    return g->ending ? err_set(e, ERR_SANDBOX_NOT_READY, "the guest is shutting down") : 0;
}

/* A program, directory or user that the sandbox does not have does not fail the request: the reply
 * describes an exec that has exited with `not_started`. */
int exec_start_method(struct request *r, struct err *e) {
    struct guest *g = r->guest;
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    struct exec *x = execs_find(g->execs, id);
    if (x) {
        exec_report_write(x, r->out);
        return 0;
    }
    struct exec_spec s = {0};
    if (exec_spec_read(r, &s, e) < 0 || exec_start_check_limits(g, e) < 0)
        return -(int)e->code;
    x = exec_new(g, id);
    if (!x)
        return err_set(e, ERR_OUT_OF_MEMORY, "start a program: out of memory");
    exec_start_apply(x, &s);
    if (exec_start_open_logs(r, &s, x, e) < 0) {
        exec_free(x);
        return -(int)e->code;
    }
    int failed = exec_start_try(r, x, &s, e);
    if (failed == -ERR_INVALID_ARGUMENT || failed == -ERR_LIMIT_REACHED ||
        failed == -ERR_OUT_OF_MEMORY) {
        exec_free(x);
        return failed;
    }
    exec_register(x);
    if (failed < 0)
        exec_end_unstarted(x, e);
    exec_report_write(x, r->out);
    return 0;
}
