/* berm-open: opens host paths for sandboxes with the rights of the caller. It is root only to
 * switch users: for each request it forks a child, which becomes the caller before it looks at a
 * path. It reads no configuration, uses no network, and parses only fixed structs from one
 * socket. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/usage.h"
#include "open/serve.h"

#define CHILDREN_MAX 64
/* The deadline of a request, so that a hanging file system does not block others. */
#define OPEN_WITHIN_US UINT64_C(20000000)
#define PACK_WITHIN_US UINT64_C(1800000000) /* deadline of PACK: a sandbox may never read */
#define LOOK_MS 1000

static const char usage[] =
    "usage: berm-open --socket-fd N --state-fd N --root DIR...\n"
    "Opens host paths for sandboxes with the rights of the caller. bermd starts it.\n"
    "  --socket-fd N  SEQPACKET socket for requests\n"
    "  --state-fd N   state directory of the daemon; nothing in it is opened\n"
    "  --root DIR     directory that paths must be beneath; may be repeated\n";

/* A running request. The caller can stop or kill its own child, so the parent enforces the deadline
 * and reports a failure. */
struct child {
    pid_t pid; /* 0: this entry is unused */
    uint32_t seq;
    uint64_t due_us;
};

struct server {
    struct open_rules rules;
    int sock;
    unsigned n_children;
    struct child children[CHILDREN_MAX];
};

/* --- options --- */

static int open_dir(const char *path) {
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_take_fd(const char *text, int *ret_fd) {
    uint64_t value;
    if (str_to_u64(str_of(text), 3, 1 << 20, &value) < 0)
        return -EINVAL;
    *ret_fd = (int)value;
    return fcntl(*ret_fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

static int open_add_never(struct open_rules *r, int fd) {
    if (fd >= 0)
        r->never[r->n_never++] = fd;
    return fd < 0 ? fd : 0;
}

static int open_apply_option(struct server *s, int option) {
    int fd;
    switch (option) {
    case 'f':
        return open_take_fd(optarg, &s->sock);
    case 's':
        return s->rules.n_never > 0 || open_take_fd(optarg, &fd) < 0
                   ? -EINVAL
                   : open_add_never(&s->rules, fd);
    case 'r':
        if (s->rules.n_roots == OPEN_ROOTS_MAX)
            return -E2BIG;
        fd = open_dir(optarg);
        if (fd >= 0)
            s->rules.roots[s->rules.n_roots++] = fd;
        return fd;
    default:
        return -EINVAL;
    }
}

static int open_read_options(int argc, char **argv, struct server *s) {
    static const struct option options[] = {{"socket-fd", required_argument, NULL, 'f'},
                                            {"state-fd", required_argument, NULL, 's'},
                                            {"root", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    static const char *const never[] = {"/proc", "/sys", "/dev"};
    int r = 0;
    for (int option; r >= 0 && (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        r = open_apply_option(s, option);
    if (r < 0) {
        fprintf(stderr, "berm-open: %s: %s\n", argv[optind - 1], strerror(-r));
        return r;
    }
    if (optind < argc || s->sock < 0 || s->rules.n_never != 1) {
        fputs(usage, stderr);
        return -EINVAL;
    }
    for (size_t i = 0; r >= 0 && i < COUNT_OF(never); i++)
        r = open_add_never(&s->rules, open_dir(never[i]));
    if (r >= 0)
        r = check_learn(&s->rules);
    if (r < 0)
        fprintf(stderr, "berm-open: %s\n", strerror(-r));
    return r;
}

/* --- children --- */

static void open_tell_failed(const struct server *s, uint32_t seq, const char *text) {
    struct err e;
    err_set(&e, ERR_HOST_PATH_REFUSED, "%s", text);
    serve_refuse(s->sock, seq, &e);
}

/* Reports a failure for a child that ended with a nonzero status, because such a child has not
 * replied. */
static void open_reap(struct server *s) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < CHILDREN_MAX; i++)
            if (s->children[i].pid == pid) {
                if (status != 0)
                    open_tell_failed(s, s->children[i].seq, "open it: timed out");
                s->children[i].pid = 0;
                s->n_children--;
            }
}

static void open_end_late(struct server *s) {
    uint64_t now = clock_us();
    for (size_t i = 0; i < CHILDREN_MAX; i++)
        if (s->children[i].pid > 0 && now > s->children[i].due_us)
            kill(s->children[i].pid, SIGKILL);
}

static void open_start(struct server *s, union open_request *q, int pipe) {
    struct child *c = s->children;
    while (c->pid != 0)
        c++;
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_IGN);
        if (getppid() == parent)
            serve_as_caller(&s->rules, q, s->sock, pipe);
        _exit(0);
    }
    if (c->pid < 0) {
        c->pid = 0;
        open_tell_failed(s, q->head.seq, "open it: fork failed");
        return;
    }
    c->seq = q->head.seq;
    c->due_us = clock_us() + (q->head.kind == OPEN_PACK ? PACK_WITHIN_US : OPEN_WITHIN_US);
    s->n_children++;
}

/* Fails with -errno when the peer closed the socket. */
static int open_take_request(struct server *s) {
    union open_request q;
    int fds[1];
    size_t n_fds = 0;
    ssize_t n = fd_recv(s->sock, &q, sizeof q, fds, COUNT_OF(fds), &n_fds);
    if (n <= 0 && n != -EMFILE)
        return n < 0 ? (int)n : -EPIPE;
    if (n > 0 && serve_is_request(&q, (size_t)n, fds, n_fds))
        open_start(s, &q, n_fds > 0 ? fds[0] : -1);
    else if (n < 0)
        open_tell_failed(s, q.head.seq, "open it: too many open files");
    else
        open_tell_failed(s, (size_t)n < sizeof q.head ? 0 : q.head.seq, "the request is invalid");
    fd_close_all(fds, n_fds);
    return 0;
}

static int open_serve_loop(struct server *s, int signals) {
    for (;;) {
        struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                               {.fd = s->sock, .events = POLLIN}};
        nfds_t n = s->n_children < CHILDREN_MAX ? 2 : 1; /* further requests wait in the socket */
        if (poll(fds, n, s->n_children > 0 ? LOOK_MS : -1) < 0 && errno != EINTR)
            return -errno;
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) > 0)
            continue;
        open_reap(s);
        open_end_late(s);
        if (n == 2 && fds[1].revents != 0) {
            int r = open_take_request(s);
            if (r < 0)
                return r;
        }
    }
}

int main(int argc, char **argv) {
    struct server s = {.sock = -1};
    sigset_t set;
    if (usage_answered(argc, argv, usage))
        return 0;
    if (open_read_options(argc, argv, &s) < 0)
        return 2;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    int r = signals < 0 ? -errno : open_serve_loop(&s, signals);
    _exit(r == -EPIPE ? 0 : 1); /* children that still pack end with us, by PDEATHSIG */
}
