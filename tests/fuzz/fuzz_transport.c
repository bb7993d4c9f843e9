/* transport — the whole path of a client's bytes: socket, HTTP/2, gRPC, handlers and back, with the
 * daemon's own methods and small limits. The first byte chooses the client's behaviour, the second
 * the size of the pieces. */
#include "fuzz.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/context.h"
#include "api/methods.h"
#include "base/log.h"
#include "transport/listener.h"
#include "transport/server.h"

enum how { WITH_PREFACE = 1, NEVER_READS = 2, HALF_CLOSES = 4 };

static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

/* Created once, like in the daemon, so that one connection can affect the next. */
static struct world {
    char dir[32];
    char path[64];
    uv_loop_t loop;
    struct limits limits;
    struct context context;
    struct api api;
    struct server server;
    struct listener listener;
} * world;

static void world_end(void) {
    unlink(world->path);
    rmdir(world->dir);
}

static void world_begin(void) {
    struct err e;
    struct api_auth auth = {0};
    world = calloc(1, sizeof *world);
    CHECK(world);
    snprintf(world->dir, sizeof world->dir, "/tmp/fuzz-XXXXXX");
    CHECK(mkdtemp(world->dir));
    snprintf(world->path, sizeof world->path, "%s/sock", world->dir);
    log_setup(STDERR_FILENO, LOG_ERROR);
    limits_init(&world->limits);
    world->limits.of[LIMIT_MESSAGE_INBOUND] = 1024;
    world->limits.of[LIMIT_MESSAGE_DECODED] = 65536;
    world->limits.of[LIMIT_HEADERS_BLOCK] = 1024;
    world->limits.of[LIMIT_CONNECTION_STREAMS] = 8;
    world->context.facts = (struct system_facts){
        .version = "0", .instance_id = "i", .run_id = "r", .limits = &world->limits};
    CHECK(uv_loop_init(&world->loop) == 0);
    CHECK(api_init(&world->api, api_daemon_methods(), 1, &auth) == 0);
    mutations_init(&world->context.mutations);
    world->api.user = &world->context;
    CHECK(server_init(&world->server, &world->loop, &world->api, &world->limits) == 0);
    CHECK(listener_unix(&world->listener, &world->server, world->path, 0600, &e) == 0);
    CHECK(listener_start(&world->listener, &e) == 0);
    atexit(world_end);
}

static int dial(void) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path, world->path, strlen(world->path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0);
    return fd;
}

static void turn(void) {
    for (unsigned i = 0; i < 3; i++)
        uv_run(&world->loop, UV_RUN_NOWAIT);
}

/* Returns false when the daemon has closed the connection. */
static bool say(int fd, const uint8_t *bytes, size_t n) {
    return n == 0 || send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed f = {data, MIN(size, (size_t)32 * 1024)};
    unsigned how = feed_byte(&f);
    size_t piece = (size_t)feed_byte(&f) * 16 + 1;
    uint8_t answer[16 * 1024];
    if (!world)
        world_begin();
    int fd = dial();
    bool lives = !(how & WITH_PREFACE) || say(fd, preface, sizeof preface - 1);
    while (lives && f.n > 0) {
        struct feed part = feed_take(&f, MAX(piece, f.n / 16));
        lives = say(fd, part.at, part.n);
        turn();
        while (!(how & NEVER_READS) && recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0) {
        }
    }
    if (how & HALF_CLOSES)
        shutdown(fd, SHUT_WR);
    turn();
    close(fd);
    for (unsigned i = 0; i < 1000 && world->server.n_conns > 0; i++)
        turn();
    CHECK(world->server.n_conns == 0 && list_is_empty(&world->server.conns));
    CHECK(world->server.deadlines.first == NULL); /* no call is pending */
    return 0;
}
