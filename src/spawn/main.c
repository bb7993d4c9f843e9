/* berm-spawn: the only program with full privilege. It reads no configuration file, uses no
 * network, and parses only fixed structs from one socket. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/str.h"
#include "base/usage.h"
#include "spawn/layer.h"
#include "spawn/instance.h"
#include "spawn/serve.h"
#include "spawn/spawn.h"

#define DYING_POLL_MS 1
#define CHORES_MS 10     /* idle time before chores run */
#define LOCK_TURNS 10000 /* attempts to lock the state, 2 ms apart */
#define RESERVE_DEFAULT_BYTES (UINT64_C(1) << 30)

static const char usage[] =
    "usage: berm-spawn --state DIR --guest FILE [--socket-fd N] [--mount-root DIR]...\n"
    "                  [--net-ahead N] [--reserve BYTES] [--without FEATURE]...\n"
    "  --state DIR       layers, generated roots and disk templates (or --state-fd N)\n"
    "  --guest FILE      program that runs as PID 1 of every sandbox\n"
    "  --socket-fd N     SEQPACKET socket, connected or listening; default: socket activation\n"
    "  --mount-root DIR  directory that mounted directories must be beneath; may be repeated\n"
    "  --net-ahead N     network namespaces kept ready (default 8, at most 64)\n"
    "  --reserve BYTES   free space of the state file system below which no sandbox starts (1 GiB)\n"
    "  --without NAME    pretend the kernel lacks overlay-fd, cgroup-v2, landlock-scope,\n"
    "                    limit-disk, disk-image or disk-quota\n";

struct settings {
    struct spawn_options o;
    int socket;
    int allowed[SPAWN_ROOTS_MAX];
};

static int main_number(const char *text, uint64_t max, uint64_t *ret) {
    return str_to_u64(str_of(text), 0, max, ret);
}

static int main_feature(const char *name, uint32_t *bits) {
    *bits |= spawn_feature_named(name);
    return spawn_feature_named(name) != 0 ? 0 : -EINVAL;
}

static int main_open_dir(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int main_apply_option(struct settings *x, int option) {
    uint64_t value = 0;
    switch (option) {
    case 's':
        return x->o.state_fd = main_open_dir(optarg);
    case 'S':
        if (main_number(optarg, 1 << 20, &value) < 0)
            return -EINVAL;
        x->o.state_fd = (int)value;
        return fcntl(x->o.state_fd, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
    case 'g':
        x->o.guest_fd = open(optarg, O_RDONLY | O_CLOEXEC);
        return x->o.guest_fd < 0 ? -errno : 0;
    case 'f':
        if (main_number(optarg, 1 << 20, &value) < 0)
            return -EINVAL;
        x->socket = (int)value;
        return 0;
    case 'm':
        if (x->o.n_allowed == SPAWN_ROOTS_MAX)
            return -E2BIG;
        return x->allowed[x->o.n_allowed++] = main_open_dir(optarg);
    case 'n':
        if (main_number(optarg, NET_POOL_MAX, &value) < 0)
            return -EINVAL;
        x->o.net_ahead = (unsigned)value;
        return 0;
    case 'r':
        return main_number(optarg, UINT64_MAX, &x->o.reserve_bytes);
    case 'w':
        return main_feature(optarg, &x->o.without);
    default:
        return -EINVAL;
    }
}

static int spawn_read_options(int argc, char **argv, struct settings *x) {
    static const struct option options[] = {{"state", required_argument, NULL, 's'},
                                            {"state-fd", required_argument, NULL, 'S'},
                                            {"guest", required_argument, NULL, 'g'},
                                            {"socket-fd", required_argument, NULL, 'f'},
                                            {"mount-root", required_argument, NULL, 'm'},
                                            {"net-ahead", required_argument, NULL, 'n'},
                                            {"reserve", required_argument, NULL, 'r'},
                                            {"without", required_argument, NULL, 'w'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        int r = main_apply_option(x, option);
        if (r < 0) {
            fprintf(stderr, "berm-spawn: %s: %s\n", argv[optind - 1], strerror(-r));
            return r;
        }
    }
    const char *count = getenv("LISTEN_FDS");
    if (x->socket < 0 && count != NULL && strcmp(count, "1") == 0)
        x->socket = 3;
    if (optind < argc || x->o.state_fd < 0 || x->o.guest_fd < 0 || x->socket < 0) {
        fputs(usage, stderr);
        return -EINVAL;
    }
    return fcntl(x->socket, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0;
}

static bool main_is_listening(int sock) {
    int listens = 0;
    socklen_t n = sizeof listens;
    return getsockopt(sock, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens;
}

/* Serves one client at a time. With a listening socket, the next client may connect when the first
 * has left. With a connected socket, berm-spawn ends with its client. Sandboxes keep running in
 * both cases. */
static int spawn_loop(struct serve *v, int sock, int signals) {
    bool listening = main_is_listening(sock);
    v->sock = listening ? -1 : sock;
    for (;;) {
        struct pollfd fds[] = {{.fd = v->sock >= 0 ? v->sock : sock, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};
        int timeout = !list_is_empty(&v->s->dying) ? DYING_POLL_MS
                      : spawn_has_chores(v->s)     ? CHORES_MS
                                                   : -1;
        int n = poll(fds, COUNT_OF(fds), timeout);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && list_is_empty(&v->s->dying)) {
            spawn_chores(v->s);
            instance_reap_all(v->s);
        }
        if (fds[1].revents & POLLIN) {
            struct signalfd_siginfo info;
            ssize_t n_read = read(signals, &info, sizeof info);
            if (n_read < 0 && errno != EAGAIN)
                return -errno;
            if (n_read == sizeof info && info.ssi_pid > 0)
                instance_reap(v->s, (pid_t)info.ssi_pid);
        }
        if (fds[0].revents != 0 && v->sock < 0) {
            v->sock = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
        } else if (fds[0].revents != 0 && serve_one(v) < 0) {
            serve_reset(v);
            if (!listening)
                return 0;
            close(v->sock);
            v->sock = -1;
        }
        serve_dying(v);
    }
}

/* Ensures one berm-spawn per state directory: a new berm-spawn starts only after the previous one,
 * whose client may have been killed, has ended its requests and itself. Uses a record lock, because
 * a fork does not inherit it. */
static int main_hold_state(int state_fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = openat(state_fd, "spawn.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    for (int turn = 0; fcntl(fd, F_SETLK, &whole) < 0; turn++) {
        struct timespec pause = {.tv_nsec = 2000000};
        if ((errno != EAGAIN && errno != EACCES) || turn == LOCK_TURNS)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return 0; /* the process holds the lock until it ends */
}

/* Raises the descriptor limit, because each sandbox holds a descriptor. */
static void main_raise_fd_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit); /* if this fails, fewer descriptors are held */
    }
}

int main(int argc, char **argv) {
    struct settings x = {.o = {.state_fd = -1,
                               .guest_fd = -1,
                               .net_ahead = 8,
                               .reserve_bytes = RESERVE_DEFAULT_BYTES},
                         .socket = -1};
    x.o.allowed_fds = x.allowed;
    if (usage_answered(argc, argv, usage))
        return 0;
    if (spawn_read_options(argc, argv, &x) < 0)
        return 2;
    main_raise_fd_limit();
    signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would discard exit statuses */
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set,
              /* report a closed peer as an error; not SIG_IGN, which sandboxes would inherit */
              SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    prctl(PR_SET_DUMPABLE, 0);
    struct spawn *s = malloc(sizeof *s);
    struct serve *v = malloc(sizeof *v);
    const char *what = "lock the state directory (is another berm-spawn running?)";
    int r = main_hold_state(x.o.state_fd);
    if (r == 0) {
        what = "allocate memory";
        r = s == NULL || v == NULL ? -ENOMEM : spawn_start(s, &x.o, &what);
    }
    if (r == 0) {
        what = "start background deletion";
        r = layer_start_trash(s);
    }
    if (r < 0) {
        fprintf(stderr, "berm-spawn: cannot start: %s: %s\n", what, strerror(-r));
        return 1;
    }
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    serve_init(v, s);
    r = signals < 0 ? -errno : spawn_loop(v, x.socket, signals);
    spawn_finish(s);
    _exit(r < 0 ? 1 : 0); /* sandboxes keep running */
}
