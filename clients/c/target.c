#include "clients/c/target.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/str.h"

#define CONNECT_SECONDS 5

static const char *or_env(const char *given, const char *name) {
    const char *found = given ? given : getenv(name);
    return found && found[0] != '\0' ? found : NULL;
}

/* Finds the socket like bermd: in the system's directory for root, in the user's for others. */
static void default_socket(struct target *t) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    const char *home = getenv("HOME");
    if (geteuid() == 0)
        snprintf(t->name, sizeof t->name, "/run/berm/bermd.sock");
    else if (runtime && runtime[0] == '/')
        snprintf(t->name, sizeof t->name, "%s/berm/bermd.sock", runtime);
    else if (home && home[0] == '/')
        snprintf(t->name, sizeof t->name, "%s/.local/state/berm/bermd.sock", home);
    else
        snprintf(t->problem, sizeof t->problem, "there is no home folder: set BERM_SOCKET");
}

static void read_token(struct target *t, const char *file) {
    char text[256];
    AUTO_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0) {
        snprintf(t->problem, sizeof t->problem, "token file %.200s: %s", file, strerror(errno));
        return;
    }
    struct str token = str_trim((struct str){text, (size_t)n});
    snprintf(t->bearer, sizeof t->bearer, "Bearer %.*s", (int)token.n, token.p);
}

/* Stores a W3C trace context of 55 characters and ignores any other text (TEL-1). */
static void set_trace(struct target *t, const char *text) {
    if (text && strlen(text) == 55 && strspn(text, "0123456789abcdef-") == 55)
        memcpy(t->trace, text, 56);
}

void target_init(struct target *t, const struct berm_options *o) {
    *t = (struct target){0};
    set_trace(t, or_env(o->traceparent, "TRACEPARENT"));
    const char *address = or_env(o->address, o->socket ? "" : "BERM_ADDRESS");
    const char *path = or_env(o->socket, "BERM_SOCKET");
    const char *file = or_env(o->token_file, "BERM_TOKEN_FILE");
    if (!address) {
        if (path)
            snprintf(t->name, sizeof t->name, "%s", path);
        else
            default_socket(t);
        return;
    }
    t->is_tcp = true;
    snprintf(t->name, sizeof t->name, "%s", address);
    if (o->token)
        snprintf(t->bearer, sizeof t->bearer, "Bearer %s", o->token);
    else if (file)
        read_token(t, file);
    if (!strrchr(address, ':'))
        snprintf(t->problem, sizeof t->problem, "\"%.200s\" is not HOST:PORT", address);
}

/* Blocks for a few seconds at most, because the send timeout also applies to connecting. */
static int connect_one(int family, const void *address, socklen_t n) {
    struct timeval timeout = {.tv_sec = CONNECT_SECONDS};
    AUTO_CLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
        connect(fd, address, n) < 0)
        return -errno;
    if (family != AF_UNIX && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) < 0)
        return -errno;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int connect_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, n + 1);
    return connect_one(AF_UNIX, &address, sizeof address);
}

static int connect_tcp(const char *name) {
    char host[256];
    const char *colon = strrchr(name, ':');
    const char *from = name;
    size_t n = (size_t)(colon - name);
    if (n >= 2 && name[0] == '[' && name[n - 1] == ']') {
        from++;
        n -= 2;
    }
    snprintf(host, sizeof host, "%.*s", (int)n, from);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -EHOSTUNREACH;
    int fd = -EHOSTUNREACH;
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = connect_one(a->ai_family, a->ai_addr, a->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

int target_connect(const struct target *t) {
    return t->is_tcp ? connect_tcp(t->name) : connect_unix(t->name);
}
