#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "stopwatch/stopwatch.h"

#define PARKED_MAX 64
#define LISTEN_TURNS 10000 /* of 1 ms each */

/* Parked instances, each with an established link, as bermd keeps them. */
static struct parked {
    char id[32];
    int pid_fd, link_fd;
} parked[PARKED_MAX];
static unsigned n_parked, serial;
static char state[64];

static void hear(int link) {
    static char text[65536];
    for (size_t n = 0;;) {
        ssize_t got = recv(link, text + n, sizeof text - 1 - n, 0);
        if (got <= 0)
            die("the parked guest's link");
        text[n += (size_t)got] = '\0';
        if (text[n - 1] != '\n')
            continue;
        if (strstr(text, "\"error\":"))
            die_of("the parked guest", text);
        return;
    }
}

static void say(int link, const char *line) {
    if (send(link, line, strlen(line), MSG_NOSIGNAL) != (ssize_t)strlen(line))
        die("send to the parked guest");
}

static int connect_to(const struct sockaddr_un *address) {
    for (int turn = 0; turn < LISTEN_TURNS; turn++, usleep(1000)) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
            return fd;
        close(fd); /* the guest does not listen yet */
    }
    die("connect to a parked guest");
}

static void park(struct parked *p) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *words[] = {"berm-guest", NULL};
    snprintf(p->id, sizeof p->id, "parked-%u", ++serial);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", state, p->id);
    int control = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control < 0 || bind(control, (struct sockaddr *)&address, sizeof address) < 0)
        die("bind a parked guest's socket");
    struct sandbox_spec spec = {.id = p->id,
                                .layer = SPAWN_LAYER_DISK,
                                .memory_bytes = UINT64_C(2) << 30,
                                .cpu_milli = 2000,
                                .pids = 512,
                                .is_parked = 1,
                                .control_fd = control,
                                .words = words};
    p->pid_fd = spawn_create(&spec);
    close(control);
    p->link_fd = connect_to(&address);
    unlink(address.sun_path);
    say(p->link_fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"hello\",\"params\":"
                    "{\"versions\":[1],\"lease_ms\":60000}}\n");
    hear(p->link_fd);
}

void claim_open(const char *folder, unsigned n) {
    snprintf(state, sizeof state, "%s", folder);
    for (n_parked = 0; n_parked < n && n_parked < PARKED_MAX; n_parked++)
        park(&parked[n_parked]);
}

/* Writes the configure request that bermd sends to a claimed guest. The instance already has its
 * name, or berm-spawn sets it. */
static size_t put_configure(char *to, size_t cap, const char *id, int n_env) {
    int n = snprintf(to, cap,
                     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"configure\",\"params\":{"
                     "\"sandbox_id\":\"%s\",\"incarnation\":1,\"workspace\":\"/workspace\","
                     "\"user\":\"user\",\"lease_ms\":60000,\"env\":[",
                     id);
    for (int i = 0; i < n_env; i++)
        n += snprintf(to + n, cap - (size_t)n, "%s{\"key\":\"NAME_%d\",\"value\":\"value %d\"}",
                      i > 0 ? "," : "", i, i);
    return (size_t)(n + snprintf(to + n, cap - (size_t)n, "]}}\n"));
}

/* Claims the oldest instance, and parks a new one after the clock has stopped. Like bermd, sends
 * configure first, and asks berm-spawn only for what differs from the parked instance. */
double claim_one(const char *name, const char *dir) {
    struct parked p = parked[0];
    char line[4096];
    struct claim_spec spec = {.id = p.id, .hostname = name ? name : "", .dir_fd = -1};
    bool has_claim = name || dir;
    if (dir) {
        spec.dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        spec.memory_bytes = UINT64_C(256) << 20;
        spec.cpu_milli = 1000;
        spec.pids = 256;
        if (spec.dir_fd < 0)
            die(dir);
    }
    double begin = now_us();
    put_configure(line, sizeof line, name ? name : p.id, dir ? 8 : 0);
    say(p.link_fd, line);
    if (has_claim)
        spawn_claim_begin(&spec);
    hear(p.link_fd);
    if (has_claim)
        spawn_claim_end();
    double took = now_us() - begin;
    if (spec.dir_fd >= 0)
        close(spec.dir_fd);
    close(p.link_fd);
    close(p.pid_fd);
    spawn_destroy(p.id);
    memmove(parked, parked + 1, (n_parked - 1) * sizeof *parked);
    park(&parked[n_parked - 1]);
    return took;
}

void claim_close(void) {
    for (unsigned i = 0; i < n_parked; i++) {
        close(parked[i].link_fd);
        close(parked[i].pid_fd);
        spawn_destroy(parked[i].id);
    }
}
