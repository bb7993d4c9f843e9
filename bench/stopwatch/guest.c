#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "stopwatch/stopwatch.h"

#define SANDBOX "bench-guest"
#define LISTEN_TURNS 10000 /* of 1 ms each */

/* The only sandbox, its link, and the bytes read from it. */
static int pid_fd = -1, link_fd = -1;
static char text[65536];
static size_t n_text, n_taken;
static uint32_t serial;
/* The cgroup of the next program, created ahead like bermd does; none before the first. */
static struct {
    uint32_t number;
    int fds[FDS_MAX];
    size_t n;
} next_cgroup;

/* Returns the next message without its line end. Valid until the next call. */
static char *next_line(void) {
    memmove(text, text + n_taken, n_text -= n_taken);
    n_taken = 0;
    for (char *end; !(end = memchr(text, '\n', n_text));) {
        ssize_t n = recv(link_fd, text + n_text, sizeof text - n_text, 0);
        if (n <= 0)
            die("the guest's link");
        n_text += (size_t)n;
    }
    char *end = memchr(text, '\n', n_text);
    *end = '\0';
    n_taken = (size_t)(end - text) + 1;
    if (strstr(text, "\"error\":"))
        die_of("the guest", text);
    return text;
}

static void say(const char *line, const int *fds, size_t n_fds) {
    if (fd_send(link_fd, line, strlen(line), fds, n_fds) < 0)
        die("send to the guest");
}

/* Sends a request and waits for any result: only one request is in flight, so ids are not
 * compared. */
static void ask(const char *line) {
    say(line, NULL, 0);
    while (!strstr(next_line(), "\"result\":"))
        ;
}

static void connect_to(const struct sockaddr_un *address) {
    for (int turn = 0; turn < LISTEN_TURNS; turn++, usleep(1000)) {
        link_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(link_fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return;
        close(link_fd); /* the guest does not listen yet */
    }
    die("connect to the guest");
}

void guest_open(const char *state, const char *layer) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *words[] = {"berm-guest", NULL};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/guest.sock", state);
    int control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control < 0 || bind(control, (struct sockaddr *)&address, sizeof address) < 0)
        die("bind the guest's socket");
    struct sandbox_spec spec = {
        .id = SANDBOX,
        .layer = strcmp(layer, "disk") == 0 ? SPAWN_LAYER_DISK : SPAWN_LAYER_MEMORY,
        .memory_bytes = UINT64_C(256) << 20,
        .pids = 256,
        .control_fd = control,
        .words = words,
    };
    pid_fd = spawn_create(&spec);
    close(control);
    connect_to(&address);
    ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":"
        "{\"versions\":[1],\"lease_ms\":60000}}\n");
    ask("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"configure\",\"params\":{\"sandbox_id\":\"" SANDBOX
        "\",\"incarnation\":1,\"workspace\":\"/workspace\",\"user\":\"user\"}}\n");
}

/* Writes the roles of the descriptors: two logs, the status, the cgroup. */
static int put_roles(char *to, size_t cap, size_t n_cgroup_fds) {
    int n = snprintf(to, cap, "\"stdout\",\"stderr\",\"status\",\"leaf\"");
    for (size_t i = 1; i < n_cgroup_fds; i++)
        n += snprintf(to + n, cap - (size_t)n, ",\"cgroup\"");
    return n;
}

static size_t put_request(char *to, size_t cap, char *const *argv, size_t n_cgroup_fds) {
    int n = snprintf(
        to, cap,
        "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"exec\",\"params\":{\"exec_id\":\"ex-%u\","
        "\"argv\":[",
        serial + 100, serial);
    for (size_t i = 0; argv[i]; i++)
        n += snprintf(to + n, cap - (size_t)n, "%s\"%s\"", i > 0 ? "," : "", argv[i]);
    n += snprintf(
        to + n, cap - (size_t)n,
        "],\"stdin\":\"empty\",\"output\":{\"policy\":\"drop_oldest\",\"limit_bytes\":1048576},"
        "\"fds\":%zu,\"fd_roles\":[",
        3 + n_cgroup_fds);
    n += put_roles(to + n, cap - (size_t)n, n_cgroup_fds);
    n += snprintf(to + n, cap - (size_t)n, "]}}\n");
    return (size_t)n;
}

static void wait_exited(void) {
    char *line;
    while (!strstr(line = next_line(), "\"method\":\"exited\""))
        ;
    if (!strstr(line, "\"exit\":{\"code\":0}"))
        die_of("the program", line);
}

static void forget(void) {
    char line[128];
    snprintf(
        line, sizeof line,
        "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"done\",\"params\":{\"exec_id\":\"ex-%u\"}}\n",
        serial + 100, serial);
    ask(line);
}

/* The files stay, as with bermd. On ext4 without a journal, creating a file is slower after many
 * deletions, and that must not grow from round to round. */
static int open_log(const char *dir, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%u.%s", dir, serial, name);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        die(path);
    return fd;
}

static void make_cgroup(void) {
    next_cgroup.n = spawn_make_cgroup(SANDBOX, ++next_cgroup.number, next_cgroup.fds);
}

void guest_run(const char *dir, char *const *argv, double *ret_told_us, double *ret_next_us) {
    int fds[3 + FDS_MAX];
    char line[4096];
    serial++;
    double begin = now_us();
    if (next_cgroup.n == 0)
        make_cgroup();
    size_t n_cgroup_fds = next_cgroup.n;
    memcpy(fds + 3, next_cgroup.fds, n_cgroup_fds * sizeof *fds);
    fds[0] = open_log(dir, "stdout");
    fds[1] = open_log(dir, "stderr");
    fds[2] = open_log(dir, "status");
    put_request(line, sizeof line, argv, n_cgroup_fds);
    say(line, fds, 3 + n_cgroup_fds);
    fd_close_all(fds, 3 + n_cgroup_fds);
    wait_exited();
    *ret_told_us = now_us() - begin;
    spawn_kill_cgroup(SANDBOX, next_cgroup.number);
    make_cgroup();
    *ret_next_us = now_us() - begin;
    forget();
}

void guest_exec_cgroup(void) {
    int fds[FDS_MAX];
    uint32_t other = UINT32_MAX - ++serial;
    size_t n = spawn_make_cgroup(SANDBOX, other, fds);
    fd_close_all(fds, n);
    spawn_kill_cgroup(SANDBOX, other);
}

void guest_close(void) {
    close(link_fd);
    close(pid_fd);
    spawn_destroy(SANDBOX);
}
