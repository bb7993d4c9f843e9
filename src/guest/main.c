/* berm-guest — the first process of a sandbox: starts programs, keeps their output and exits, opens files,
 * reaps everything, and outlives the daemon it talks to for as long as its lease says.
 *
 *   berm-guest [--fd N] [--lease-ms N]   listens on a bound Unix socket, descriptor 3 unless told
 *   berm-guest --stdio                   speaks on stdin and stdout
 *   berm-guest --version */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/usage.h"
#include "guest/guest.h"

#define ARENA_FIRST 16384
#define ARENA_MAX ((size_t)16 << 20) /* a full message as nodes and unescaped copies */
#define SWEEPS 100
#define SWEEP_PAUSE_US 2000
#define LEASE_GRACE_MS 5000
#define END_SLACK_MS 3000 /* past the grace time, for pipes and disks */

struct options {
    bool stdio;
    int fd;
    uint64_t lease_ms;
};

static const char usage[] =
    "usage: berm-guest [--stdio | --fd N] [--lease-ms N]\n"
    "PID 1 of a sandbox: JSON-RPC 2.0 as in spec/guest.md. berm-spawn starts it.\n"
    "  --stdio        on standard input and output, for one asker\n"
    "  --fd N         on a socket that listens (3)\n"
    "  --lease-ms N   ends when nobody has talked to it for so long (86400000); 0: never\n";

static int refuse_options(void) {
    fprintf(stderr, "berm-guest: an option that is unknown or lacks its number\n%s", usage);
    return 2;
}

static int read_options(int argc, char **argv, struct options *o) {
    *o = (struct options){.fd = 3, .lease_ms = GUEST_LEASE_DEFAULT_MS};
    for (int i = 1; i < argc; i++) {
        uint64_t value = 0;
        if (strcmp(argv[i], "--stdio") == 0) {
            o->stdio = true;
            continue;
        }
        if (i + 1 == argc || str_to_u64(str_of(argv[i + 1]), 0, INT64_MAX, &value) < 0)
            return refuse_options();
        if (strcmp(argv[i], "--fd") == 0 && value <= INT32_MAX)
            o->fd = (int)value;
        else if (strcmp(argv[i], "--lease-ms") == 0)
            o->lease_ms = value;
        else
            return refuse_options();
        i++;
    }
    return 0;
}

/* A child that has ended and can still be asked about; 0: all there are live; -ECHILD: there are none. */
static pid_t find_ended(void) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 ? -errno : info.si_pid;
}

static bool reap(pid_t pid, struct exec_child *end) {
    struct rusage used;
    *end = (struct exec_child){.pid = pid, .session = getsid(pid)};
    if (wait4(end->pid, &end->wait_status, 0, &used) < 0)
        return false;
    end->max_rss_bytes = (uint64_t)used.ru_maxrss * 1024;
    return true;
}

static void reap_all(struct guest *g) {
    struct exec_child end;
    pid_t next = find_ended();
    while (next > 0 && reap(next, &end)) {
        next = find_ended();
        end.is_last = next == -ECHILD;
        exec_end_on_child(&g->execs, &end);
        children_on_end(&g->jobs.children, end.pid);
    }
    exec_end_check_all(&g->execs, next == -ECHILD);
}

static void on_signal(struct source *s, uint32_t events) {
    struct guest *g = container_of(s, struct guest, signals);
    struct signalfd_siginfo infos[4]; /* each signal waits once, and there are three */
    (void)events;
    ssize_t n = read(s->fd, infos, sizeof infos);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof infos[0]; i++)
        if (infos[i].ssi_signo == SIGTERM || infos[i].ssi_signo == SIGINT)
            guest_end(g, GRACE_DEFAULT_MS);
    reap_all(g);
}

static void on_lease(struct timer *t) {
    guest_end(container_of(t, struct guest, lease), LEASE_GRACE_MS);
}

static void on_end(struct timer *t) {
    container_of(t, struct guest, end)->loop.stop = true;
}

void guest_end(struct guest *g, uint64_t grace_ms) {
    exec_end_all(&g->execs, grace_ms);
    g->ending = true;
    timer_start(&g->loop, &g->end, grace_ms + END_SLACK_MS);
}

static void on_turn(void *arg) {
    struct guest *g = arg;
    guest_serve_waiting(g);
    exec_report_send_all(&g->execs);
    link_flush(&g->link);
    if (watches_turn(&g->watches))
        link_flush(&g->link);
    guest_make_workspace(g);
    bool told = !g->link.connected || buf_len(&g->link.tx) == 0;
    if (g->ending && g->execs.running == 0 && told)
        g->loop.stop = true;
}

/* 0, 1 and 2 are nobody's but a program's: whatever the guest opens must lie above them. */
static int claim_stdio(void) {
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        int null = open("/dev/null", O_RDWR);
        if (null >= 0 && null != fd)
            return -EBADF;
    }
    return 0;
}

static int start_link(struct guest *g, const struct options *o) {
    link_init(&g->link, &g->loop, &guest_link_events);
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

static int start_signals(struct guest *g) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a log at its largest is an error of write */
    sigset_t mine;
    sigemptyset(&mine);
    sigaddset(&mine, SIGCHLD);
    /* PID 1 is asked to end over its link, or killed from outside. Signals are not for it: root inside may send
     * any, and a queue that it has filled makes them look like ones from outside. */
    if (getpid() != 1) {
        sigaddset(&mine, SIGTERM);
        sigaddset(&mine, SIGINT);
    }
    int fd = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
    g->signals = (struct source){.fd = -1, .on_ready = on_signal};
    return fd < 0 ? -errno : loop_add(&g->loop, &g->signals, fd, EPOLLIN);
}

static int guest_start(struct guest *g, const struct options *o) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* where the guest is not the first process */
    privileges_read(&g->privileges);
    (void)!access(GUEST_WORKSPACE,
                  F_OK); /* the first look takes a while: now nobody waits for it */
    buf_init(&g->text, LINK_MESSAGE_MAX);
    execs_init(&g->execs, g);
    jobs_init(&g->jobs, g);
    list_init(&g->watches.all);
    timer_init(&g->lease, on_lease);
    timer_init(&g->end, on_end);
    g->lease_ms = o->lease_ms;
    g->scratch = malloc(GUEST_SCRATCH);
    int r = g->scratch ? arena_init(&g->arena, ARENA_FIRST, ARENA_MAX) : -ENOMEM;
    if (r == 0)
        r = loop_init(&g->loop);
    if (r == 0)
        r = start_signals(g);
    if (r == 0)
        r = start_link(g, o);
    if (r == 0 && g->lease_ms > 0)
        timer_start(&g->loop, &g->lease, g->lease_ms); /* until somebody says hello */
    return r;
}

/* What was allowed to outlive its program does not outlive the guest. The kernel sees to that where the
 * guest is the first process. */
static void end_all_below(void) {
    struct tree all = {.cgroup = -1, .shepherd = getpid()};
    for (int i = 0; i < SWEEPS && tree_signal(&all, SIGKILL) > 0; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        usleep(SWEEP_PAUSE_US);
    }
}

static void guest_done(struct guest *g) {
    end_all_below();
    watches_close_all(&g->watches);
    jobs_done(&g->jobs);
    link_done(&g->link);
    execs_done(&g->execs);
    close(loop_remove(&g->loop, &g->signals));
    loop_done(&g->loop);
    settings_free(&g->settings);
    arena_done(&g->arena);
    buf_done(&g->text);
    free(g->scratch);
    free(g);
}

int main(int argc, char **argv) {
    struct options o;
    if (usage_answered(argc, argv, usage))
        return 0;
    int bad = read_options(argc, argv, &o);
    if (bad)
        return bad;
    struct guest *g = calloc(1, sizeof *g);
    int r = g ? claim_stdio() : -ENOMEM;
    if (r == 0)
        r = guest_start(g, &o);
    if (r < 0) {
        fprintf(stderr, "berm-guest: cannot start: %s\n", strerror(-r));
        return 1;
    }
    loop_run(&g->loop, on_turn, g);
    guest_done(g);
    return 0;
}
