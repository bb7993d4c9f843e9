#include "guest/exec/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "guest/guest.h"
#include "guest/exec/launch.h"
#include "guest/params.h"
#include "guest/exec/pty.h"

#define DRAIN_MS 500     /* for pipes that outlive the leader */
#define DRAINS_MAX 3     /* for what was killed to be gone: on a busy machine that takes its time */
#define KILL_AGAIN_MS 20 /* first, then doubled */
#define KILL_AGAIN_MAX_MS 1000
#define STATUS_RETRY_MS 200
#define STATUS_MAX 4096

static void on_timeout(struct timer *t);
static void on_kill(struct timer *t);
static void on_drain(struct timer *t);
static void on_report(struct source *s, uint32_t events);

static uint64_t unix_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void execs_init(struct execs *x, struct guest *g) {
    *x = (struct execs){.guest = g};
    list_init(&x->all);
    list_init(&x->forgotten);
}

struct exec *execs_find(struct execs *xs, struct str id) {
    LIST_FOR_EACH(it, &xs->all) {
        struct exec *x = container_of(it, struct exec, node);
        if (str_is(id, str_of(x->id)))
            return x;
    }
    return NULL;
}

struct exec *exec_new(struct guest *g, struct str id) {
    struct exec *x = TAKE(g->execs.spare);
    if (!x)
        x = malloc(sizeof *x);
    if (!x)
        return NULL;
    *x = (struct exec){.guest = g};
    memcpy(x->id, id.p, id.n);
    list_init(&x->node);
    x->tree = (struct tree){.leaf = -1};
    x->terminal = x->status_fd = -1;
    x->report = (struct source){.fd = -1, .on_ready = on_report};
    x->in.fd = -1;
    for (int i = 0; i < STREAM_COUNT; i++) {
        x->out[i].source.fd = x->out[i].parked = x->out[i].their_end = -1;
        x->log[i].fd = -1;
    }
    buf_init(&x->in_bytes, STDIN_WINDOW + 2); /* and a terminal's end of file */
    buf_init(&x->held, GUEST_SCRATCH);
    timer_init(&x->timeout, on_timeout);
    timer_init(&x->kill, on_kill);
    timer_init(&x->drain, on_drain);
    timer_init(&x->retry, exec_out_on_retry);
    return x;
}

static void close_if_open(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void exec_free(struct exec *x) {
    for (int i = 0; i < STREAM_COUNT; i++) {
        close_if_open(&x->out[i].their_end);
        exec_out_close(&x->out[i]);
        outlog_done(&x->log[i]);
    }
    exec_in_close(x);
    int report = loop_remove(&x->guest->loop, &x->report);
    close_if_open(&report);
    close_if_open(&x->terminal);
    close_if_open(&x->status_fd);
    tree_done(&x->tree);
    timer_stop(&x->timeout);
    timer_stop(&x->kill);
    timer_stop(&x->drain);
    timer_stop(&x->retry);
    buf_done(&x->in_bytes);
    buf_done(&x->held);
    free(x->guest->execs.spare);
    x->guest->execs.spare = x;
}

static void free_grave(struct later *l) {
    exec_free(container_of(l, struct exec, grave));
}

void execs_done(struct execs *xs) {
    for (struct list *it; (it = list_pop_front(&xs->all)) || (it = list_pop_front(&xs->forgotten));)
        exec_free(container_of(it, struct exec, node));
    free(xs->spare);
}

void exec_register(struct exec *x) {
    struct execs *xs = &x->guest->execs;
    list_push_back(&xs->all, &x->node);
    xs->count++;
    xs->running++;
    x->started_unix_ms = unix_ms();
}

void exec_kill(struct exec *x) {
    x->kill_asked = true;
    if (tree_is_empty(&x->tree)) {
        timer_stop(&x->kill);
        return;
    }
    tree_kill(&x->tree);
    x->kill_again_ms =
        x->kill_again_ms ? MIN(x->kill_again_ms * 2, KILL_AGAIN_MAX_MS) : KILL_AGAIN_MS;
    timer_start(&x->guest->loop, &x->kill, x->kill_again_ms);
}

static void on_kill(struct timer *t) {
    struct exec *x = container_of(t, struct exec, kill);
    exec_kill(x);
    exec_check_end(x);
}

/* SIGTERM, and the rest after the grace time. */
static void exec_end(struct exec *x, uint64_t grace_ms) {
    if (x->state != EXEC_RUNNING)
        return;
    if (grace_ms == 0) {
        exec_kill(x);
        return;
    }
    tree_signal(&x->tree, SIGTERM);
    tree_signal(&x->tree, SIGCONT); /* one that is stopped could not act on it */
    timer_start(&x->guest->loop, &x->kill, grace_ms);
}

static void on_timeout(struct timer *t) {
    struct exec *x = container_of(t, struct exec, timeout);
    x->is_timed_out = true;
    exec_end(x, x->grace_ms);
}

void execs_end_all(struct execs *xs, uint64_t grace_ms) {
    LIST_FOR_EACH(it, &xs->all) {
        exec_end(container_of(it, struct exec, node), grace_ms);
    }
}

static void decide_exit(struct exec *x) {
    bool by_signal = WIFSIGNALED(x->wait_status);
    int code = WEXITSTATUS(x->wait_status), sig = WTERMSIG(x->wait_status);
    /* A shell says 137 for a child that was killed. */
    bool killed = by_signal ? sig == SIGKILL : code == 128 + SIGKILL;
    if (x->is_full) {
        x->exit = EXIT_OUTPUT_LIMIT;
    } else if (x->is_timed_out) {
        x->exit = EXIT_TIMED_OUT;
        x->exit_value = by_signal ? sig : SIGTERM;
    } else if (killed && !x->was_killed && tree_was_out_of_memory(&x->tree)) {
        x->exit = EXIT_OUT_OF_MEMORY;
    } else {
        x->exit = by_signal ? EXIT_SIGNAL : EXIT_CODE;
        x->exit_value = by_signal ? sig : code;
    }
}

/* False when the disk is full: the exit is told once it is written. */
static bool write_status(struct exec *x) {
    if (x->status_fd < 0)
        return true;
    uint8_t text[STATUS_MAX];
    struct buf line = {.block = text, .cap = sizeof text, .max_bytes = sizeof text};
    struct json_out o;
    json_begin(&o, &line);
    exec_write_state(x, &o);
    bool kept = true;
    if (json_end(&o) == 0 && buf_append(&line, "\n", 1) == 0) {
        ssize_t n = pwrite(x->status_fd, buf_data(&line), buf_len(&line), 0);
        kept = (n == (ssize_t)buf_len(&line) && fdatasync(x->status_fd) == 0) ||
               (n < 0 && errno != ENOSPC && errno != EDQUOT);
    }
    if (kept)
        close_if_open(&x->status_fd);
    return kept;
}

static void forget_fds(struct exec *x) {
    exec_in_close(x);
    int report = loop_remove(&x->guest->loop, &x->report);
    close_if_open(&report);
    for (int i = 0; i < STREAM_COUNT; i++) {
        if (!x->keep_descendants)
            exec_out_close(&x->out[i]);
        if (!x->own_logs)
            outlog_done(&x->log[i]);
    }
    if (!x->keep_descendants)
        close_if_open(&x->terminal);
    buf_done(&x->in_bytes);
}

static void finish(struct exec *x) {
    x->state = EXEC_EXITED;
    if (x->exited_unix_ms == 0)
        x->exited_unix_ms = unix_ms();
    if (!write_status(x)) {
        x->state = EXEC_ENDING;
        timer_start(&x->guest->loop, &x->drain, STATUS_RETRY_MS);
        return;
    }
    x->guest->execs.running--;
    timer_stop(&x->timeout);
    timer_stop(&x->drain);
    timer_stop(&x->retry);
    forget_fds(x);
    x->tell_exited = true;
}

/* A cgroup does not list who is on its way out; the kernel still counts them among our children. Those in
 * a process group of their own are not asked for. */
static bool is_being_left(const struct exec *x) {
    siginfo_t info;
    return x->session > 0 &&
           waitid(P_PGID, (id_t)x->session, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* Nobody of it is left who would have to be waited for. */
static bool is_over(struct exec *x) {
    return x->keep_descendants || x->is_alone || (tree_is_empty(&x->tree) && !is_being_left(x));
}

void exec_check_end(struct exec *x) {
    if (x->is_forgotten && !x->out[0].is_open && !x->out[1].is_open) {
        loop_free_later(&x->guest->loop, &x->grave, free_grave);
        list_remove(&x->node);
        x->is_forgotten = false;
    }
    if (x->state != EXEC_ENDING)
        return;
    bool at_end = !x->out[0].is_open && !x->out[1].is_open;
    if ((x->is_drained || (at_end && is_over(x))) && buf_len(&x->held) == 0)
        finish(x);
}

/* Output the block policy holds back keeps the program's end back as well, unless its end was ordered. */
static void on_drain(struct timer *t) {
    struct exec *x = container_of(t, struct exec, drain);
    if (buf_len(&x->held) > 0 && ++x->fulls >= DRAINS_MAX)
        exec_out_skip(x);
    if (x->state != EXEC_ENDING)
        return;
    exec_out_drain(x);
    bool waits = exec_out_is_blocked(x) && !x->is_timed_out && !x->was_killed && !x->guest->ending;
    bool at_end = !x->out[0].is_open && !x->out[1].is_open;
    if ((!waits || at_end) && (++x->drains >= DRAINS_MAX || is_over(x)))
        x->is_drained = true;
    if (!x->is_drained || buf_len(&x->held) > 0)
        timer_start(&x->guest->loop, &x->drain, DRAIN_MS);
    exec_check_end(x);
}

/* Whether that was all is looked at by the caller. */
static void leader_ended(struct exec *x, int status, bool is_alone) {
    if (x->state != EXEC_RUNNING)
        return;
    x->state = EXEC_ENDING;
    x->wait_status = status;
    x->was_killed = x->kill_asked; /* before the kill of what it left */
    x->tree.leader = 0;
    timer_stop(&x->timeout);
    timer_stop(&x->kill);
    for (int i = 0; i < STREAM_COUNT; i++)
        close_if_open(&x->out[i].their_end);
    exec_out_drain(x); /* before the exit is decided: it may be one byte too many */
    decide_exit(x);
    if (!x->keep_descendants && !is_alone)
        exec_kill(x);
    x->is_drained = x->keep_descendants && !exec_out_is_blocked(x);
    timer_start(&x->guest->loop, &x->drain, DRAIN_MS);
}

static void take_report(struct exec *x) {
    struct launch_end end;
    ssize_t n = 0;
    while ((n = read(x->report.fd, &end, sizeof end)) == sizeof end && !end.is_reaped) {
        x->wait_status = end.wait_status;
        x->has_status = true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    int fd = loop_remove(&x->guest->loop, &x->report);
    close(fd);
    if (n == sizeof end) {
        x->max_rss_bytes = MAX(x->max_rss_bytes, end.max_rss_bytes);
        leader_ended(x, end.wait_status, end.is_alone);
    } else if (x->has_status) /* the shepherd was killed, but had seen the end */
        leader_ended(x, x->wait_status, false);
    else /* it had not: the leader is our child now, and its end comes that way */
        tree_signal(&x->tree, SIGKILL);
}

static void on_report(struct source *s, uint32_t events) {
    struct exec *x = container_of(s, struct exec, report);
    (void)events;
    take_report(x);
    exec_check_end(x);
}

/* Whose it was; what a leader left is known by its session, until the program has been told as exited. */
static struct exec *exec_of_child(struct execs *xs, const struct child_end *end) {
    struct exec *left_by = NULL;
    LIST_FOR_EACH(it, &xs->all) {
        struct exec *x = container_of(it, struct exec, node);
        if (end->pid == x->tree.leader || end->pid == x->tree.shepherd)
            return x;
        if (x->state != EXEC_EXITED && end->session == x->session)
            left_by = x;
    }
    return left_by;
}

void execs_on_child(struct execs *xs, const struct child_end *end) {
    struct exec *x = exec_of_child(xs, end);
    if (!x)
        return;
    x->max_rss_bytes = MAX(x->max_rss_bytes, end->max_rss_bytes);
    if (end->pid == x->tree.shepherd) {
        x->tree.shepherd = 0;
        if (x->report.fd >= 0)
            take_report(x); /* what it wrote comes before its end */
    } else if (end->pid == x->tree.leader) {
        leader_ended(x, end->wait_status, end->is_last);
    }
}

/* Everyone in the sandbox descends from the guest, and who has lost his parents is its child. */
void execs_check_ends(struct execs *xs, bool is_childless) {
    LIST_FOR_EACH(it, &xs->all) {
        struct exec *x = container_of(it, struct exec, node);
        x->is_alone |= is_childless && x->state == EXEC_ENDING;
        exec_check_end(x);
    }
}

void exec_ended_unstarted(struct exec *x, const struct err *why) {
    x->state = EXEC_ENDING;
    x->exit = EXIT_NOT_STARTED;
    x->not_started = *why;
    x->keep_descendants = false;
    x->in_closed = true;
    finish(x);
    x->tell_exited = x->state != EXEC_EXITED; /* the answer tells it */
}

static void free_or_forget(struct exec *x) {
    list_remove(&x->node);
    x->guest->execs.count--;
    if (x->out[0].is_open || x->out[1].is_open) {
        x->is_forgotten = true; /* what it left still writes; its pipes must not break */
        list_push_back(&x->guest->execs.forgotten, &x->node);
    } else {
        loop_free_later(&x->guest->loop, &x->grave, free_grave);
    }
}

int exec_method_done(struct request *r, struct err *e) {
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    struct exec *x = execs_find(&r->guest->execs, id);
    if (!x)
        return 0; /* said before */
    if (x->state != EXEC_EXITED)
        return err_field(e, "exec_id", "is running");
    free_or_forget(x);
    return 0;
}

int exec_of_request(struct request *r, struct exec **ret, struct err *e) {
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    *ret = execs_find(&r->guest->execs, id);
    if (!*ret)
        return err_set(e, ERR_EXEC_NOT_FOUND, "no program %.*s", (int)id.n, id.p);
    return 0;
}

/* A daemon that was killed in between asks again under the same number: a signal is sent once. */
static bool was_sent(struct exec *x, int64_t number) {
    if (number == 0)
        return false;
    for (size_t i = 0; i < COUNT_OF(x->signal_numbers); i++)
        if (x->signal_numbers[i] == number)
            return true;
    x->signal_numbers[x->next_signal++ % COUNT_OF(x->signal_numbers)] = number;
    return false;
}

int exec_method_signal(struct request *r, struct err *e) {
    struct exec *x;
    int64_t sig = 0, number = 0;
    bool leader_only = false;
    if (exec_of_request(r, &x, e) < 0 || params_int(r->params, "signal", 1, 64, &sig, e) < 0 ||
        params_int(r->params, "number", 1, PARAMS_OFFSET_MAX, &number, e) < 0 ||
        params_bool(r->params, "leader_only", &leader_only, e) < 0)
        return -(int)e->code;
    if (sig == 0)
        return params_missing("signal", e);
    if (x->state != EXEC_RUNNING)
        return err_set(e, ERR_EXEC_ENDED, "%s has ended", x->id);
    if (was_sent(x, number))
        return 0;
    x->kill_asked |= sig == SIGKILL;
    if (leader_only)
        kill(x->tree.leader, (int)sig);
    else if (sig == SIGKILL)
        exec_kill(x);
    else
        tree_signal(&x->tree, (int)sig);
    return 0;
}

int exec_method_resize(struct request *r, struct err *e) {
    struct exec *x;
    int64_t cols = 0, rows = 0;
    if (exec_of_request(r, &x, e) < 0 || params_int(r->params, "cols", 1, 4096, &cols, e) < 0 ||
        params_int(r->params, "rows", 1, 4096, &rows, e) < 0)
        return -(int)e->code;
    if (cols == 0 || rows == 0)
        return params_missing(cols == 0 ? "cols" : "rows", e);
    if (x->state != EXEC_RUNNING)
        return err_set(e, ERR_EXEC_ENDED, "%s has ended", x->id);
    if (x->terminal < 0)
        return err_set(e, ERR_EXEC_NO_TERMINAL, "%s has none", x->id);
    int s = pty_resize(x->terminal, (uint16_t)cols, (uint16_t)rows);
    return s < 0 ? err_sys(e, ERR_INTERNAL, -s, "resize") : 0;
}
