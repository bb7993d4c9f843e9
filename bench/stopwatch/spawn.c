#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "stopwatch/stopwatch.h"

extern char **environ;

static int sock = -1;
static pid_t spawn_pid;
static uint32_t seq;

static void say(void *message, uint32_t kind, uint32_t size, int *fd, size_t n_fds) {
    *(struct spawn_head *)message = (struct spawn_head){SPAWN_VERSION, kind, size, ++seq};
    if (fd_send(sock, message, size, fd, n_fds) < 0)
        die("send to berm-spawn");
}

static void hear(struct spawn_reply *ret_reply, int fds[FDS_MAX]) {
    size_t n_got = 0;
    if (fd_recv(sock, ret_reply, sizeof *ret_reply, fds, FDS_MAX, &n_got) != sizeof *ret_reply)
        die("answer of berm-spawn");
    if (ret_reply->error != 0)
        die_of(spawn_step_name(ret_reply->step), strerror(ret_reply->error));
}

static void ask(void *message, uint32_t kind, uint32_t size, int *fd, size_t n_fds,
                struct spawn_reply *ret_reply, int fds[FDS_MAX]) {
    say(message, kind, size, fd, n_fds);
    hear(ret_reply, fds);
}

void spawn_open(const char *program, const char *guest, const char *state, const char *mount_root) {
    int pair[2];
    char number[16];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        die("socketpair");
    fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    snprintf(number, sizeof number, "%d", pair[1]);
    char *argv[] = {(char *)program, "--state", (char *)state,  "--guest",          (char *)guest,
                    "--socket-fd",   number,    "--mount-root", (char *)mount_root, NULL};
    if (posix_spawn(&spawn_pid, program, NULL, NULL, argv, environ) != 0)
        die(program);
    close(pair[1]);
    sock = pair[0];
    struct spawn_hello hello;
    struct spawn_reply reply;
    int fds[FDS_MAX];
    ask(&hello, SPAWN_HELLO, sizeof hello, NULL, 0, &reply, fds);
}

static uint32_t put_words(char *to, size_t cap, char *const *words) {
    uint32_t n = 0;
    for (size_t at = 0; words[n]; n++) {
        size_t size = strlen(words[n]) + 1;
        if (at + size > cap)
            die_of(words[n], "too long");
        memcpy(to + at, words[n], size);
        at += size;
    }
    return n;
}

void spawn_sweep(void) {
    static struct spawn_sweep req;
    struct spawn_reply reply;
    int fds[FDS_MAX];
    req = (struct spawn_sweep){.last = 1};
    ask(&req, SPAWN_SWEEP, sizeof req, NULL, 0, &reply, fds);
}

void spawn_close(void) {
    if (sock < 0)
        return;
    close(sock); /* berm-spawn exits with its client */
    while (waitpid(spawn_pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int spawn_create(const struct sandbox_spec *spec) {
    static struct spawn_create req;
    static uint32_t slot;
    struct spawn_reply reply;
    int control = spec->control_fd, fds[FDS_MAX];
    memset(&req, 0, sizeof req);
    snprintf(req.id, sizeof req.id, "%s", spec->id);
    req.slot = ++slot % SPAWN_SLOTS;
    req.profile = SPAWN_PROFILE_USER;
    req.root = SPAWN_ROOT_HOST;
    req.layer = spec->layer;
    req.network = SPAWN_NETWORK_NONE;
    req.flags =
        (control >= 0 ? SPAWN_CREATE_CONTROL : 0) | (spec->is_parked ? SPAWN_CREATE_PARKED : 0);
    req.limits.memory_bytes = spec->memory_bytes;
    req.limits.cpu_milli = spec->cpu_milli;
    req.limits.pids = spec->pids;
    req.n_argv = put_words(req.text, sizeof req.text, spec->words);
    ask(&req, SPAWN_CREATE, sizeof req, control >= 0 ? &control : NULL, control >= 0, &reply, fds);
    return fds[0];
}

void spawn_destroy(const char *id) {
    struct spawn_destroy req = {.flags = SPAWN_DESTROY_FILES};
    struct spawn_reply reply;
    int fds[FDS_MAX];
    snprintf(req.id, sizeof req.id, "%s", id);
    ask(&req, SPAWN_DESTROY, sizeof req, NULL, 0, &reply, fds);
}

void spawn_claim_begin(const struct claim_spec *spec) {
    static struct spawn_claim req;
    int dir = spec->dir_fd;
    memset(&req, 0, sizeof req);
    snprintf(req.id, sizeof req.id, "%s", spec->id);
    snprintf(req.hostname, sizeof req.hostname, "%s", spec->hostname);
    req.limits = (struct spawn_limits){
        .memory_bytes = spec->memory_bytes, .cpu_milli = spec->cpu_milli, .pids = spec->pids};
    req.n_mounts = dir >= 0;
    if (dir >= 0)
        snprintf(req.mounts[0].target, sizeof req.mounts[0].target, "/workspace");
    say(&req, SPAWN_CLAIM, sizeof req, &dir, req.n_mounts);
}

void spawn_claim_end(void) {
    struct spawn_reply reply;
    int fds[FDS_MAX];
    hear(&reply, fds);
}

size_t spawn_make_cgroup(const char *id, uint32_t cgroup, int fds[FDS_MAX]) {
    struct spawn_exec_cgroup req = {.first = cgroup, .count = 1};
    struct spawn_reply reply;
    snprintf(req.id, sizeof req.id, "%s", id);
    ask(&req, SPAWN_EXEC_CGROUP, sizeof req, NULL, 0, &reply, fds);
    return reply.n_fds;
}

void spawn_kill_cgroup(const char *id, uint32_t cgroup) {
    struct spawn_kill_cgroup req = {.cgroup = cgroup};
    struct spawn_reply reply;
    int fds[FDS_MAX];
    snprintf(req.id, sizeof req.id, "%s", id);
    ask(&req, SPAWN_KILL_CGROUP, sizeof req, NULL, 0, &reply, fds);
}
