#include "guest/exec/exec_end.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "guest/exec/exec.h"
#include "guest/exec/launch.h"
#include "guest/guest.h"

#define DRAIN_MS 500   /* how long to wait for pipes that stay open after the leader's exit */
#define DRAIN_ROUNDS 3 /* killed processes exit slowly on a busy machine, so wait DRAIN_MS again */
#define KILL_AGAIN_MS 20 /* delay before SIGKILL is repeated; doubles each time */
#define KILL_AGAIN_MAX_MS 1000
#define STATUS_RETRY_MS 200
#define STATUS_MAX 4096

static void exec_end_on_timeout(struct timer *t);
static void exec_end_on_kill(struct timer *t);
static void exec_end_on_drain(struct timer *t);
static void exec_end_on_report(struct source *s, uint32_t events);

void exec_end_init(struct exec_end *end) {
    end->status_fd = -1;
    end->report = (struct source){.fd = -1, .on_ready = exec_end_on_report};
    timer_init(&end->timeout, exec_end_on_timeout);
    timer_init(&end->kill, exec_end_on_kill);
    timer_init(&end->drain, exec_end_on_drain);
}

static void exec_end_close_report(struct exec *x) {
    int fd = loop_remove(&x->guest->loop, &x->end.report);
    if (fd >= 0)
        close(fd);
}

static void exec_end_close_status(struct exec *x) {
    if (x->end.status_fd >= 0)
        close(TAKE_FD(x->end.status_fd));
}

void exec_end_done(struct exec *x) {
    exec_end_close_report(x);
    exec_end_close_status(x);
    timer_stop(&x->end.timeout);
    timer_stop(&x->end.kill);
    timer_stop(&x->end.drain);
}

void exec_end_watch_report(struct exec *x, int fd) {
    if (loop_add(&x->guest->loop, &x->end.report, fd, EPOLLIN) < 0)
        abort(); /* the kernel lacks memory for an epoll entry, after larger allocations worked */
}

void exec_end_start_timeout(struct exec *x, int64_t timeout_ms) {
    if (timeout_ms > 0)
        timer_start(&x->guest->loop, &x->end.timeout, (uint64_t)timeout_ms);
}

void exec_end_mark_killed(struct exec *x) {
    if (x->kill == KILL_NONE)
        exec_state_set_kill(&x->kill, x->life == EXEC_RUNNING ? KILL_LEADER : KILL_DESCENDANTS);
}

void exec_end_kill(struct exec *x) {
    struct exec_end *end = &x->end;
    exec_end_mark_killed(x);
    if (tree_check_empty(&x->tree)) {
        timer_stop(&end->kill);
        return;
    }
    tree_kill(&x->tree);
    end->kill_delay_ms =
        end->kill_delay_ms ? MIN(end->kill_delay_ms * 2, KILL_AGAIN_MAX_MS) : KILL_AGAIN_MS;
    timer_start(&x->guest->loop, &end->kill, end->kill_delay_ms);
}

static void exec_end_on_kill(struct timer *t) {
    struct exec *x = container_of(t, struct exec, end.kill);
    exec_end_kill(x);
    exec_end_check(x);
}

/* Sends SIGTERM now and SIGKILL after the grace period. */
static void exec_end_terminate(struct exec *x, uint64_t grace_ms) {
    if (x->life != EXEC_RUNNING)
        return;
    if (grace_ms == 0) {
        exec_end_kill(x);
        return;
    }
    tree_signal(&x->tree, SIGTERM);
    tree_signal(&x->tree, SIGCONT); /* a stopped process could not handle SIGTERM */
    timer_start(&x->guest->loop, &x->end.kill, grace_ms);
}

static void exec_end_on_timeout(struct timer *t) {
    struct exec *x = container_of(t, struct exec, end.timeout);
    if (x->cause == CAUSE_NONE)
        exec_state_set_cause(&x->cause, CAUSE_TIMEOUT);
    exec_end_terminate(x, x->end.grace_ms);
}

void exec_end_all(struct execs *all, uint64_t grace_ms) {
    LIST_FOR_EACH(it, &all->all) {
        exec_end_terminate(container_of(it, struct exec, node), grace_ms);
    }
}

static void exec_end_decide_exit(struct exec *x) {
    struct exec_exit *outcome = &x->exit;
    int status = x->end.wait_status;
    bool by_signal = WIFSIGNALED(status);
    int code = WEXITSTATUS(status), sig = WTERMSIG(status);
    /* A shell exits with 137 when its child was killed. */
    bool killed = by_signal ? sig == SIGKILL : code == 128 + SIGKILL;
    if (x->cause == CAUSE_OUTPUT_LIMIT) {
        outcome->kind = EXIT_OUTPUT_LIMIT;
    } else if (x->cause == CAUSE_TIMEOUT) {
        outcome->kind = EXIT_TIMED_OUT;
        outcome->value = by_signal ? sig : SIGTERM;
    } else if (killed && x->kill != KILL_LEADER && tree_was_out_of_memory(&x->tree)) {
        outcome->kind = EXIT_OUT_OF_MEMORY;
    } else {
        outcome->kind = by_signal ? EXIT_SIGNAL : EXIT_CODE;
        outcome->value = by_signal ? sig : code;
    }
}

/* Returns false when the disk is full, so that the caller retries. Ignores other errors, because the daemon also gets
 * the exit in the notification. */
static bool exec_end_write_status(struct exec *x) {
    int fd = x->end.status_fd;
    if (fd < 0)
        return true;
    uint8_t text[STATUS_MAX];
    struct buf line = {.block = text, .cap = sizeof text, .max_bytes = sizeof text};
    struct json_out o;
    json_begin(&o, &line);
    exec_report_write_exited(x, &o);
    bool is_written = true;
    if (json_end(&o) == 0 && buf_append(&line, "\n", 1) == 0) {
        ssize_t n = pwrite(fd, buf_data(&line), buf_len(&line), 0);
        is_written = (n == (ssize_t)buf_len(&line) && fdatasync(fd) == 0) ||
                     (n < 0 && errno != ENOSPC && errno != EDQUOT);
    }
    if (is_written)
        exec_end_close_status(x);
    return is_written;
}

/* With keep_descendants the streams stay open: descendants may write, and must not get SIGPIPE. */
static void exec_end_close_fds(struct exec *x) {
    exec_input_close(x);
    exec_end_close_report(x);
    for (int i = 0; i < EXEC_OUTPUTS; i++) {
        if (!x->keep_descendants)
            exec_output_close(&x->output.streams[i]);
        if (!x->output.owns_logs)
            outlog_done(&x->output.logs[i]);
    }
    if (!x->keep_descendants && x->terminal >= 0)
        close(TAKE_FD(x->terminal));
}

/* RECORDING → EXITED, or a retry when the disk is full. */
static void exec_end_record(struct exec *x) {
    if (x->exit.unix_ms == 0)
        x->exit.unix_ms = (uint64_t)clock_unix_ms();
    if (!exec_end_write_status(x)) {
        timer_start(&x->guest->loop, &x->end.drain, STATUS_RETRY_MS);
        return;
    }
    exec_state_set_life(&x->life, EXEC_EXITED);
    x->guest->execs->running--;
    timer_stop(&x->end.timeout);
    timer_stop(&x->end.drain);
    timer_stop(&x->output.retry);
    exec_end_close_fds(x);
    exec_report_set(x, NOTICE_EXITED);
}

/* A cgroup does not list exiting processes, but the kernel still counts them among our children. This does
 * not find processes that moved to a process group of their own. */
static bool exec_end_has_exiting(const struct exec *x) {
    siginfo_t info;
    return x->session > 0 &&
           waitid(P_PGID, (id_t)x->session, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Returns true when the exit no longer has to wait for a process. */
static bool exec_end_check_tree(struct exec *x) {
    return x->keep_descendants || x->processes == PROCESSES_NONE ||
           (tree_check_empty(&x->tree) && !exec_end_has_exiting(x));
}

void exec_end_check(struct exec *x) {
    if (x->life == EXEC_LINGERING && exec_output_is_closed(x))
        exec_free_later(x);
    if (exec_output_is_held(x))
        return;
    if (x->life == EXEC_DRAINING && exec_output_is_closed(x) && exec_end_check_tree(x))
        exec_state_set_life(&x->life, EXEC_RECORDING);
    if (x->life == EXEC_RECORDING)
        exec_end_record(x);
}

/* Output that the block policy holds back delays the exit, unless the guest ended the exec. */
static bool exec_end_waits_for_reader(const struct exec *x) {
    return exec_output_is_blocked(x) && !exec_output_is_closed(x) && x->cause == CAUSE_NONE &&
           x->kill != KILL_LEADER && !x->guest->ending;
}

static void exec_end_on_drain(struct timer *t) {
    struct exec *x = container_of(t, struct exec, end.drain);
    struct exec_end *end = &x->end;
    if (exec_output_is_held(x) && ++end->full_rounds >= DRAIN_ROUNDS)
        exec_output_skip(x);
    if (x->life != EXEC_DRAINING && x->life != EXEC_RECORDING)
        return;
    exec_output_drain(x);
    if (x->life == EXEC_DRAINING && !exec_end_waits_for_reader(x) &&
        (++end->drain_rounds >= DRAIN_ROUNDS || exec_end_check_tree(x)))
        exec_state_set_life(&x->life, EXEC_RECORDING);
    if (x->life == EXEC_DRAINING || exec_output_is_held(x))
        timer_start(&x->guest->loop, &end->drain, DRAIN_MS);
    exec_end_check(x);
}

/* The caller calls exec_end_check afterwards. `is_alone`: the leader left no process behind. */
static void exec_end_on_leader(struct exec *x, int wait_status, bool is_alone) {
    if (x->life != EXEC_RUNNING)
        return;
    exec_state_set_life(&x->life, EXEC_DRAINING);
    exec_state_set_processes(&x->processes, PROCESSES_DESCENDANTS);
    x->end.wait_status = wait_status;
    x->tree.leader = 0;
    timer_stop(&x->end.timeout);
    timer_stop(&x->end.kill);
    exec_output_close_write_ends(x);
    exec_output_drain(x); /* may reach the output limit, which becomes the cause of the exit */
    exec_end_decide_exit(x);
    if (!x->keep_descendants && !is_alone)
        exec_end_kill(x);
    if (x->keep_descendants && !exec_output_is_blocked(x))
        exec_state_set_life(&x->life, EXEC_RECORDING);
    timer_start(&x->guest->loop, &x->end.drain, DRAIN_MS);
}

static void exec_end_take_report(struct exec *x) {
    struct launch_end end;
    ssize_t n = 0;
    while ((n = read(x->end.report.fd, &end, sizeof end)) == sizeof end && !end.is_reaped) {
        x->end.wait_status = end.wait_status;
        if (x->processes == PROCESSES_LEADER)
            exec_state_set_processes(&x->processes, PROCESSES_REPORTED);
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    exec_end_close_report(x);
    if (n == sizeof end) {
        x->max_rss_bytes = MAX(x->max_rss_bytes, end.max_rss_bytes);
        exec_end_on_leader(x, end.wait_status, end.is_alone);
    } else if (x->processes == PROCESSES_REPORTED) { /* the shepherd died after its first report */
        exec_end_on_leader(x, x->end.wait_status, false);
    } else if (x->processes == PROCESSES_LEADER) { /* the shepherd died before any report */
        tree_signal(&x->tree, SIGKILL);
    }
}

static void exec_end_on_report(struct source *s, uint32_t events) {
    struct exec *x = container_of(s, struct exec, end.report);
    (void)events;
    exec_end_take_report(x);
    exec_end_check(x);
}

/* Returns the exec that a reaped child belonged to. The session identifies a process that a leader
 * left behind, until the exec has exited. */
static struct exec *exec_end_find_owner(struct execs *all, const struct exec_child *child) {
    struct exec *by_session = NULL;
    LIST_FOR_EACH(it, &all->all) {
        struct exec *x = container_of(it, struct exec, node);
        if (child->pid == x->tree.leader || child->pid == x->tree.shepherd)
            return x;
        if (x->life < EXEC_EXITED && child->session == x->session)
            by_session = x;
    }
    return by_session;
}

void exec_end_on_child(struct execs *all, const struct exec_child *child) {
    struct exec *x = exec_end_find_owner(all, child);
    if (!x)
        return;
    x->max_rss_bytes = MAX(x->max_rss_bytes, child->max_rss_bytes);
    if (child->pid == x->tree.shepherd) {
        x->tree.shepherd = 0;
        if (x->end.report.fd >= 0)
            exec_end_take_report(x); /* handle the shepherd's report before its exit */
    } else if (child->pid == x->tree.leader) {
        exec_end_on_leader(x, child->wait_status, child->is_last);
    }
}

/* Orphans become children of the guest, so a guest without children has no process below it. */
void exec_end_check_all(struct execs *all, bool is_childless) {
    LIST_FOR_EACH(it, &all->all) {
        struct exec *x = container_of(it, struct exec, node);
        if (is_childless && x->life < EXEC_EXITED && x->processes == PROCESSES_DESCENDANTS)
            exec_state_set_processes(&x->processes, PROCESSES_NONE);
        exec_end_check(x);
    }
}

void exec_end_unstarted(struct exec *x, const struct err *why) {
    exec_state_set_life(&x->life, EXEC_RECORDING);
    x->exit.kind = EXIT_NOT_STARTED;
    x->exit.not_started = *why;
    x->keep_descendants = false; /* a program that did not start has no descendants */
    exec_input_close(x);
    exec_end_record(x);
    if (x->life == EXEC_EXITED)
        x->notices = 0; /* the reply reports the exit */
}
