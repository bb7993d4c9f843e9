#include "transport/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "transport/conn.h"

#define BACKLOG 511

static void on_connection(uv_stream_t *handle, int status) {
    struct listener *l = handle->data;
    if (status < 0)
        log_text(LOG_WARN, "accept_failed", "%s: %s", l->address, uv_strerror(status));
    else
        conn_accept(l->server, handle, l->is_unix);
}

int listener_start(struct listener *l, struct err *e) {
    int r = uv_listen(&l->uv.stream, BACKLOG, on_connection);
    if (r < 0) {
        listener_close(l);
        return err_sys(e, ERR_INTERNAL, -r, "listen on %s", l->address);
    }
    struct log_line line;
    if (log_begin(&line, LOG_INFO, "listening")) {
        log_str(&line, "addr", str_of(l->address));
        log_end(&line);
        log_flush();
    }
    return 0;
}

static void listener_opened(struct listener *l, struct server *s) {
    l->uv.handle.data = l;
    l->server = s;
    l->open = true;
}

void listener_close(struct listener *l) {
    if (!l->open)
        return;
    l->open = false;
    uv_close(&l->uv.handle, NULL); /* libuv also unlinks the socket file that it bound */
}

/* --- Unix --- */

/* Removes the socket file if it is stale. Fails if another process answers on it. */
static int listener_clear_stale(const char *path, struct err *e) {
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof addr.sun_path)
        return err_set(e, ERR_INVALID_ARGUMENT, "socket path %s: must have at most %zu bytes", path,
                       sizeof addr.sun_path - 1);
    if (lstat(path, &st) < 0)
        return 0; /* no file to remove; bind reports a missing directory */
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_INVALID_ARGUMENT, "bind %s: the file exists and is not a socket",
                       path);
    memcpy(addr.sun_path, path, strlen(path));
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, ERR_INTERNAL, errno, "open a socket");
    if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0 || errno == EAGAIN)
        return err_set(e, ERR_INTERNAL, "bind %s: another process already serves it", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(e, ERR_INTERNAL, errno, "remove the stale socket %s", path);
    return 0;
}

int listener_unix(struct listener *l, struct server *s, const char *path, mode_t mode,
                  struct err *e) {
    *l = (struct listener){.is_unix = true};
    snprintf(l->address, sizeof l->address, "unix:%s", path);
    int r = listener_clear_stale(path, e);
    if (r < 0)
        return r;
    r = uv_pipe_init(s->loop, &l->uv.pipe, 0);
    if (r < 0)
        return err_sys(e, ERR_INTERNAL, -r, "open %s", l->address);
    listener_opened(l, s);
    mode_t before = umask((mode_t)~mode & 0777); /* so that bind creates the file with `mode` */
    r = uv_pipe_bind(&l->uv.pipe, path);
    umask(before);
    if (r < 0) {
        listener_close(l);
        return err_sys(e, ERR_INTERNAL, -r, "bind %s", l->address);
    }
    return 0;
}

/* --- TCP --- */

static bool listener_is_loopback(const struct sockaddr_storage *addr) {
    if (addr->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static int listener_parse_address(const char *text, struct sockaddr_storage *ret_addr,
                                  struct err *e) {
    const char *colon = strrchr(text, ':');
    uint64_t port;
    char host[64];
    if (!colon || str_to_u64(str_of(colon + 1), 0, 65535, &port) < 0 ||
        (size_t)(colon - text) >= sizeof host)
        return err_set(e, ERR_INVALID_ARGUMENT, "listen: must be HOST:PORT, got \"%s\"", text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        if (uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)ret_addr) == 0)
            return 0;
    }
    const char *v4 = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (uv_ip4_addr(v4, (int)port, (struct sockaddr_in *)ret_addr) == 0)
        return 0;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "listen: must name an IP address or localhost, got \"%s\"", host);
}

static void listener_name_address(struct listener *l) {
    struct sockaddr_storage addr = {0};
    int n = sizeof addr;
    char host[INET6_ADDRSTRLEN] = "?";
    uv_tcp_getsockname(&l->uv.tcp, (struct sockaddr *)&addr, &n);
    uv_ip_name((struct sockaddr *)&addr, host, sizeof host);
    bool v6 = addr.ss_family == AF_INET6;
    in_port_t port =
        v6 ? ((struct sockaddr_in6 *)&addr)->sin6_port : ((struct sockaddr_in *)&addr)->sin_port;
    snprintf(l->address, sizeof l->address, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(port));
}

int listener_tcp(struct listener *l, struct server *s, const char *address, struct err *e) {
    struct sockaddr_storage addr = {0};
    *l = (struct listener){0};
    snprintf(l->address, sizeof l->address, "%s", address);
    int r = listener_parse_address(address, &addr, e);
    if (r < 0)
        return r;
    if (!listener_is_loopback(&addr))
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "listen on %s: other machines can reach this address, and the daemon has "
                       "no TLS; use 127.0.0.1 or [::1]",
                       address);
    r = uv_tcp_init(s->loop, &l->uv.tcp);
    if (r < 0)
        return err_sys(e, ERR_INTERNAL, -r, "open %s", address);
    listener_opened(l, s);
    r = uv_tcp_bind(&l->uv.tcp, (struct sockaddr *)&addr, 0);
    if (r < 0) {
        listener_close(l);
        return err_sys(e, ERR_INTERNAL, -r, "bind %s", address);
    }
    listener_name_address(l);
    return 0;
}
