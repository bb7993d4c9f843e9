#include "guest/life.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "guest/exec/exec.h"
#include "guest/guest.h"
#include "guest/methods.h"
#include "guest/watch/watch.h"

#define ARENA_FIRST 16384
#define ARENA_MAX ((size_t)16 << 20) /* a message of maximum size as JSON nodes and text copies */
#define SWEEPS 100
#define SWEEP_PAUSE_US 2000
#define LEASE_GRACE_MS 5000
#define END_SLACK_MS 3000 /* added to the grace period, to drain pipes and write to disk */
#define COMMON_WORKSPACE "/workspace" /* default workspace of most sandboxes */

/* All state of the guest, in one allocation. */
struct life {
    struct guest guest;
    struct execs execs;
    struct watches watches;
};

void life_end(struct guest *g, uint64_t grace_ms) {
    exec_end_all(g->execs, grace_ms);
    g->ending = true;
    timer_start(&g->loop, &g->end, grace_ms + END_SLACK_MS);
}

/* Returns the pid of a child that has exited and is not reaped, 0 when all children run, or -ECHILD. */
static pid_t life_find_zombie(void) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ? -errno : info.si_pid;
}

static bool life_reap(pid_t pid, struct exec_child *child) {
    struct rusage used;
    *child = (struct exec_child){.pid = pid, .session = getsid(pid)};
    if (wait4(pid, &child->wait_status, 0, &used) < 0)
        return false;
    child->max_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
    return true;
}

static void life_reap_all(struct guest *g) {
    struct exec_child child;
    pid_t next = life_find_zombie();
    while (next > 0 && life_reap(next, &child)) {
        next = life_find_zombie();
        child.is_last = next == -ECHILD;
        exec_end_on_child(g->execs, &child);
        children_on_exit(&g->jobs.children, child.pid);
    }
    exec_end_check_all(g->execs, next == -ECHILD);
}

static void life_on_signal(struct source *s, uint32_t events) {
    struct guest *g = container_of(s, struct guest, signals);
    struct signalfd_siginfo infos[4]; /* three signals, each pending at most once */
    (void)events;
    ssize_t n = read(s->fd, infos, sizeof infos);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof infos[0]; i++)
        if (infos[i].ssi_signo == SIGTERM || infos[i].ssi_signo == SIGINT)
            life_end(g, GRACE_DEFAULT_MS);
    life_reap_all(g);
}

static void life_on_lease(struct timer *t) {
    life_end(container_of(t, struct guest, lease), LEASE_GRACE_MS);
}

static void life_on_end(struct timer *t) {
    container_of(t, struct guest, end)->loop.stop = true;
}

/* Returns whether the daemon has everything that it can still ask for. The timer `end` bounds the
 * wait. */
static bool life_is_released(const struct guest *g) {
    return !g->link.connected || (buf_len(&g->link.tx) == 0 && !execs_hold_output(g->execs));
}

/* Sends everything that this turn produced in one write. Work that can wait runs after the
 * write. */
static void life_on_turn(void *arg) {
    struct guest *g = arg;
    methods_serve_waiting(g);
    exec_report_send_all(g->execs);
    link_flush(&g->link);
    if (watches_turn(g->watches))
        link_flush(&g->link);
    settings_make_workspace(&g->settings);
    if (g->ending && g->execs->running == 0 && life_is_released(g))
        g->loop.stop = true;
}

/* Opens descriptors 0, 1 and 2 where they are closed, so that no other file of the guest gets one
 * of these numbers, which a program's stdio replaces. */
static int life_claim_stdio(void) {
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int null = open("/dev/null", O_RDWR);
        if (null >= 0 && null != fd)
            return -EBADF;
    }
    return 0;
}

/* On stdio, the link gets copies of descriptors 0 and 1, and both become /dev/null, so that nothing
 * else writes to the link. */
static int life_start_link(struct guest *g, const struct life_options *o) {
    if (!o->stdio)
        return link_listen(&g->link, o->fd);
    int in = fcntl(0, F_DUPFD_CLOEXEC, 3), out = fcntl(1, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in < 0 || out < 0)
        return -errno;
    if (null >= 0) {
        dup2(null, 0);
        dup2(null, 1);
        close(null);
    }
    return link_stdio(&g->link, in, out);
}

static int life_start_signals(struct guest *g) {
    sigset_t all, mine;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at its maximum size makes write fail instead */
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    /* As PID 1, the guest ignores SIGTERM and SIGINT: root inside may send them, and when it fills the signal
     * queue they look as if they came from outside. PID 1 ends over its link, or is killed from outside. */
    if (getpid() != 1) {
        sigaddset(&mine, SIGTERM);
        sigaddset(&mine, SIGINT);
    }
    int fd = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : loop_add(&g->loop, &g->signals, fd, EPOLLIN);
}

/* Initialises everything that life_done releases. */
static int life_init(struct life *life) {
    struct guest *g = &life->guest;
    g->execs = &life->execs;
    g->watches = &life->watches;
    g->signals = (struct source){.fd = -1, .on_ready = life_on_signal};
    execs_init(g->execs, g);
    watches_init(g->watches);
    jobs_init(&g->jobs);
    handles_init(&g->handles);
    timer_init(&g->lease, life_on_lease);
    timer_init(&g->end, life_on_end);
    buf_init(&g->text, LINK_MESSAGE_MAX);
    link_init(&g->link, &g->loop, &methods_link_events);
    return loop_init(&g->loop);
}

static int life_start(struct guest *g, const struct life_options *o) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* for a guest that is not PID 1 */
    privileges_read(&g->privileges);
    (void)!access(COMMON_WORKSPACE, F_OK); /* fills the dentry cache while no request waits */
    g->lease_ms = o->lease_ms;
    g->scratch = malloc(GUEST_SCRATCH);
    int r = g->scratch ? arena_init(&g->arena, ARENA_FIRST, ARENA_MAX) : -ENOMEM;
    if (r == 0)
        r = life_start_signals(g);
    if (r == 0)
        r = life_start_link(g, o);
    if (r == 0 && g->lease_ms > 0)
        timer_start(&g->loop, &g->lease, g->lease_ms); /* the lease applies until the first hello */
    return r;
}

/* Kills processes that were allowed to outlive their exec. If the guest is PID 1, the kernel kills
 * them. */
static void life_kill_all(void) {
    struct tree all = {.cgroup = -1, .shepherd = getpid()};
    for (int i = 0; i < SWEEPS && tree_signal(&all, SIGKILL) > 0; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        usleep(SWEEP_PAUSE_US);
    }
}

static void life_done(struct guest *g) {
    life_kill_all();
    watches_close_all(g->watches);
    jobs_done(&g->jobs);
    handles_close_all(&g->handles);
    link_done(&g->link);
    execs_done(g->execs);
    int signals = loop_remove(&g->loop, &g->signals);
    if (signals >= 0)
        close(signals);
    loop_done(&g->loop);
    settings_done(&g->settings);
    arena_done(&g->arena);
    buf_done(&g->text);
    free(g->scratch);
}

int life_run(const struct life_options *o) {
    struct life *life = calloc(1, sizeof *life);
    if (!life)
        return -ENOMEM;
    struct guest *g = &life->guest;
    int r = life_claim_stdio();
    int init = life_init(life);
    if (r == 0)
        r = init < 0 ? init : life_start(g, o);
    if (r == 0)
        loop_run(&g->loop, life_on_turn, g);
    life_done(g);
    free(life);
    return r;
}
