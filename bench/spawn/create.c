/* Create, run a program, reap, destroy: berm-spawn, berm-jail and bubblewrap in interleaved
 * rounds.
 *
 *     create BERM-SPAWN BERM-INIT BERM-JAIL STATE-DIR TRUE ROUNDS
 *
 * TRUE is a static program below /usr. Prints min, median and 90th percentile in microseconds of
 * each variant, and its median over bubblewrap's. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "spawn/request.h"

extern char **environ;

struct series {
    const char *name;
    double *us;
    int n;
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void run(char *const *argv) {
    pid_t pid;
    int status;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        die(argv[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0) {
        fprintf(stderr, "%s: status %x\n", argv[0], status);
        exit(1);
    }
}

static int start_spawn(const char *program, const char *guest, const char *state) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        die("socketpair");
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    char number[16];
    snprintf(number, sizeof number, "%d", pair[1]);
    char *argv[] = {(char *)program, "--state", (char *)state, "--guest", (char *)guest,
                    "--socket-fd",   number,    "--net-ahead", "16",      NULL};
    pid_t pid;
    if (posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0)
        die(program);
    close(pair[1]);
    return pair[0];
}

static void ask(int sock, void *req, size_t n, int *ret_fd) {
    struct spawn_reply reply;
    size_t n_fds = 0;
    int fd = -1;
    if (fd_send(sock, req, n, NULL, 0) < 0)
        die("send");
    if (fd_recv(sock, &reply, sizeof reply, &fd, 1, &n_fds) != sizeof reply)
        die("reply");
    if (reply.error != 0) {
        fprintf(stderr, "%s: %s\n", spawn_step_name(reply.step), strerror(reply.error));
        exit(1);
    }
    if (ret_fd != NULL)
        *ret_fd = fd;
}

/* One sandbox: returns the time until its program was reaped, and *ret_all until it was
 * destroyed. */
static double one(int sock, const char *program, uint32_t layer, uint64_t limits, double *ret_all) {
    static uint32_t serial;
    static struct spawn_create req;
    memset(&req, 0, sizeof req);
    req.head = (struct spawn_head){SPAWN_VERSION, SPAWN_CREATE, sizeof req, ++serial};
    snprintf(req.id, sizeof req.id, "bench-%u", serial);
    req.slot = serial % SPAWN_SLOTS;
    req.profile = SPAWN_PROFILE_USER;
    req.root = SPAWN_ROOT_HOST;
    req.layer = layer;
    req.network = SPAWN_NETWORK_NONE;
    req.limits.memory_bytes = limits;
    req.limits.pids = limits ? 256 : 0;
    req.n_argv = 4;
    int at =
        snprintf(req.text, sizeof req.text, "berm-init%c1000%c/workspace%c%s", 0, 0, 0, program);
    if (at < 0)
        die("text");
    double begin = now_us();
    int pidfd = -1;
    ask(sock, &req, sizeof req, &pidfd);
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    poll(&p, 1, -1);
    double ran = now_us();
    struct spawn_destroy end = {.head = {SPAWN_VERSION, SPAWN_DESTROY, sizeof end, ++serial},
                                .flags = SPAWN_DESTROY_FILES};
    memcpy(end.id, req.id, sizeof end.id);
    ask(sock, &end, sizeof end, NULL);
    *ret_all = now_us() - begin;
    close(pidfd);
    return ran - begin;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    int rounds = atoi(argv[6]);
    enum { SPAWN, SPAWN_ALL, DISK, DISK_ALL, LIMITED, JAIL, BWRAP, BARE, COUNT };
    struct series s[COUNT] = {{"berm-spawn, memory layer: ran and reaped", 0, 0},
                              {"  and destroyed", 0, 0},
                              {"berm-spawn, disk layer: ran and reaped", 0, 0},
                              {"  and destroyed", 0, 0},
                              {"berm-spawn, memory layer, memory and pids limits", 0, 0},
                              {"berm-jail, whole process", 0, 0},
                              {"bwrap --unshare-all", 0, 0},
                              {"posix_spawn", 0, 0}};
    for (int i = 0; i < COUNT; i++)
        s[i].us = calloc((size_t)rounds, sizeof(double));
    int sock = start_spawn(argv[1], argv[2], argv[4]);
    struct spawn_hello hello = {{SPAWN_VERSION, SPAWN_HELLO, sizeof hello, 0}};
    ask(sock, &hello, sizeof hello, NULL);
    char *jail[] = {argv[3], "--state", argv[4], "--", argv[5], NULL};
    char *bwrap[] = {"/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr",   "/usr",
                     "--symlink",      "usr/lib64",     "/lib64",    "--proc", "/proc",
                     "--dev",          "/dev",          argv[5],     NULL};
    char *bare[] = {argv[5], NULL};
    for (int i = -3; i < rounds; i++) {
        double t[COUNT], begin;
        t[SPAWN] = one(sock, argv[5], SPAWN_LAYER_MEMORY, 0, &t[SPAWN_ALL]);
        begin = now_us(), run(bwrap), t[BWRAP] = now_us() - begin;
        t[DISK] = one(sock, argv[5], SPAWN_LAYER_DISK, 0, &t[DISK_ALL]);
        begin = now_us(), run(bare), t[BARE] = now_us() - begin;
        double unused;
        t[LIMITED] = one(sock, argv[5], SPAWN_LAYER_MEMORY, 64 << 20, &unused);
        begin = now_us(), run(jail), t[JAIL] = now_us() - begin;
        for (int k = 0; k < COUNT && i >= 0; k++)
            s[k].us[s[k].n++] = t[k];
        usleep(2000);
    }
    for (int k = 0; k < COUNT; k++)
        qsort(s[k].us, (size_t)s[k].n, sizeof(double), by_value);
    double unit = s[BWRAP].us[rounds / 2];
    printf("%-52s %8s %8s %8s %6s\n", "", "min", "median", "p90", "ratio");
    for (int k = 0; k < COUNT; k++)
        printf("%-52s %8.0f %8.0f %8.0f %6.2f\n", s[k].name, s[k].us[0], s[k].us[rounds / 2],
               s[k].us[rounds * 9 / 10], s[k].us[rounds / 2] / unit);
    return 0;
}
