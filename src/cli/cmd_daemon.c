/* daemon start, stop, status. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cli/cli.h"

#define START_US ((uint64_t)60 * 1000000) /* long: bermd first adopts sandboxes */
#define STOP_MS 60000
#define LOG_TAIL_BYTES 2048

/* --- finding the daemon --- */

static int get_info(struct cli *cli, Berm__V1__GetInfoResponse **ret, struct berm_error *e) {
    Berm__V1__GetInfoRequest request = BERM__V1__GET_INFO_REQUEST__INIT;
    return berm_info(cli->client, &request, ret, e);
}

/* Returns the process that listens on the socket, from the kernel; -1 if there is none. */
static pid_t listener_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t n = sizeof peer;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return -1;
    return peer.pid;
}

int cmd_daemon_status(struct cli *cli) {
    struct berm_error e;
    Berm__V1__GetInfoResponse *info;
    const char *target = berm_client_target(cli->client);
    if (get_info(cli, &info, &e) < 0) {
        if (e.code != BERM_UNREACHABLE || cli->json)
            return cli_fail(cli, &e);
        printf("no daemon at %s\n", target);
        return 1;
    }
    if (cli->json) {
        cli_print_json(info);
    } else {
        pid_t pid = listener_of(target);
        printf("bermd %s at %s%s: %s, up %lld s\n", info->version, target,
               pid > 0 ? cli_text(cli, ", pid %ld", (long)pid) : "",
               cli_enum(cli, &berm__v1__daemon_state__descriptor, (int)info->state),
               (long long)(info->uptime_ms / 1000));
    }
    berm_free(info);
    return 0;
}

/* --- start --- */

/* Finds bermd in the directory of this program, else in PATH. */
static const char *find_bermd(struct cli *cli) {
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        *strrchr(self, '/') = '\0';
        const char *beside = cli_text(cli, "%s/bermd", self);
        if (access(beside, X_OK) == 0)
            return beside;
    }
    return "bermd";
}

/* Builds bermd's arguments: our options under its names, then what follows "--". */
static char **bermd_argv(struct cli *cli, const char *program) {
    static const char *const passed[] = {"state", "socket", "listen", "config", "log-level"};
    char **argv = cli_alloc(
        cli, (COUNT_OF(passed) * 2 + opt_count(cli, "set") * 2 + cli->n_args + 2) * sizeof *argv);
    size_t n = 0, at = 0;
    argv[n++] = (char *)program;
    for (size_t i = 0; i < COUNT_OF(passed); i++)
        if (opt_has(cli, passed[i])) {
            argv[n++] = cli_text(cli, "--%s", passed[i]);
            argv[n++] = opt_get(cli, passed[i]);
        }
    if (!opt_has(cli, "socket") &&
        !opt_has(cli, "config")) { /* make bermd listen where berm connects */
        argv[n++] = (char *)"--socket";
        argv[n++] = (char *)berm_client_target(cli->client);
    }
    for (char *pair; (pair = opt_next(cli, "set", &at));) {
        argv[n++] = (char *)"--set";
        argv[n++] = pair;
    }
    for (size_t i = 0; i < cli->n_args; i++)
        argv[n++] = cli->args[i];
    return argv;
}

/* Opens the log next to the socket unless --log is given, because the state directory belongs to
 * the daemon. */
static int open_log(struct cli *cli, const char **ret_path) {
    const char *target = berm_client_target(cli->client);
    const char *path = opt_get(cli, "log");
    if (!path)
        path = cli_text(cli, "%.*s/bermd.log", (int)(strrchr(target, '/') - target), target);
    *ret_path = path;
    char *folder = cli_text(cli, "%s", path);
    for (char *p = folder + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = '\0';
        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

/* Starts bermd in a new session. Returns the pid, or -1. */
static pid_t launch(char **argv, int log_fd) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null_fd = open("/dev/null", O_RDWR);
    setsid();
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "berm: %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

static int complain_ended(const char *path, off_t from) {
    char tail[LOG_TAIL_BYTES];
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, tail, sizeof tail, from);
    cli_complain("bermd ended; its log %s says:", path);
    fprintf(stderr, "%.*s", (int)MAX(n, (ssize_t)0), tail);
    return EXIT_BERM;
}

static int wait_for_answer(struct cli *cli, pid_t pid, const char *log, off_t from, bool quietly) {
    struct berm_error e;
    Berm__V1__GetInfoResponse *info;
    for (uint64_t until = clock_us() + START_US; clock_us() < until; usleep(10000)) {
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return complain_ended(log, from);
        if (get_info(cli, &info, &e) < 0)
            continue;
        if (quietly)
            ;
        else if (cli->json)
            cli_print_json(info);
        else
            printf("bermd %s at %s, pid %ld, log %s\n", info->version,
                   berm_client_target(cli->client), (long)pid, log);
        berm_free(info);
        return 0;
    }
    return cli_complain("bermd did not reply within a minute; pid %ld, log %s", (long)pid, log);
}

int cmd_daemon_start(struct cli *cli) {
    struct berm_error e;
    struct stat st;
    Berm__V1__GetInfoResponse *info;
    const char *target = berm_client_target(cli->client);
    if (target[0] != '/')
        return cli_complain(
            "cannot start a daemon at a TCP address; use --socket with an absolute path");
    if (get_info(cli, &info, &e) == 0) {
        berm_free(info);
        return cli_complain("a daemon already listens at %s", target);
    }
    const char *path;
    AUTO_CLOSE int log_fd = open_log(cli, &path);
    if (log_fd < 0)
        return cli_complain("open log %s: %s\n      choose another file with --log FILE", path,
                            strerror(-log_fd));
    off_t from = fstat(log_fd, &st) == 0 ? st.st_size : 0;
    fflush(stdout);
    pid_t pid = launch(bermd_argv(cli, find_bermd(cli)), log_fd);
    if (pid < 0)
        return cli_complain("fork: %s", strerror(errno));
    return wait_for_answer(cli, pid, path, from, false);
}

/* --- started on demand --- */

static bool is_default(const struct cli *cli) {
    return !opt_has(cli, "socket") && !opt_has(cli, "address") && !getenv("BERM_SOCKET") &&
           !getenv("BERM_ADDRESS");
}

void daemon_ensure(struct cli *cli) {
    struct cli other = *cli; /* a copy, to drop the command's own options */
    const char *path;
    if (geteuid() != 0 || !is_default(cli) || opt_has(cli, "no-start") || getenv("BERM_NO_START") ||
        listener_of(berm_client_target(cli->client)) > 0)
        return;
    other.n_values = other.n_args = 0;
    AUTO_CLOSE int log_fd = open_log(&other, &path);
    struct stat st;
    if (log_fd < 0 || fstat(log_fd, &st) < 0)
        return; /* the command itself reports that no daemon replies */
    fflush(stdout);
    pid_t pid = launch(bermd_argv(&other, find_bermd(&other)), log_fd);
    if (pid > 0 && wait_for_answer(&other, pid, path, st.st_size, true) == 0)
        fprintf(stderr, "berm: started bermd at %s, pid %ld; `berm daemon stop` ends it\n",
                berm_client_target(cli->client), (long)pid);
    cli->arena = other.arena;
}

/* --- stop --- */

int cmd_daemon_stop(struct cli *cli) {
    const char *target = berm_client_target(cli->client);
    pid_t pid = listener_of(target);
    if (pid <= 0)
        return cli_complain("no daemon listens at %s", target);
    AUTO_CLOSE int fd = pidfd_open(pid, 0);
    if (fd < 0 || listener_of(target) != pid) /* check that the pid was not reused */
        return cli_complain("the daemon at %s has exited", target);
    if (pidfd_send_signal(fd, SIGTERM, NULL, 0) < 0)
        return cli_complain("pid %ld: %s", (long)pid, strerror(errno));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, STOP_MS) <= 0)
        return cli_complain("pid %ld got SIGTERM but has not exited yet", (long)pid);
    if (!cli->json)
        printf("stopped pid %ld\n", (long)pid);
    return 0;
}
