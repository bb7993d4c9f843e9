/* Runs the link against the real berm-guest as an ordinary process. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/guest_peer.h"

static struct peer peer;
static char dir[64];
static struct sockaddr_un address;

/* Finds berm-guest in the directory of the test program. */
static bool guest_path(char *path, size_t cap) {
    ssize_t n = readlink("/proc/self/exe", path, cap - 16);
    if (n < 0)
        return false;
    path[n] = '\0';
    strcpy(strrchr(path, '/'), "/berm-guest");
    return access(path, X_OK) == 0;
}

static pid_t guest_start(const char *path) {
    snprintf(dir, sizeof dir, "/tmp/berm-link-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/ctl", dir);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        if (dup2(sock, 3) == sock)
            fcntl(3, F_SETFD, 0);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(sock);
    return pid;
}

static void connect_to_guest(void) {
    int sock = -1;
    for (int tries = 0; tries < 4000; tries++) {
        sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(sock, (struct sockaddr *)&address, sizeof address) == 0)
            break;
        close(sock); /* it does not listen yet */
        usleep(5000);
    }
    peer_open_on(&peer, sock);
}

static void guest_end(pid_t pid) {
    int status;
    struct json_out *o;
    struct request *r = peer_begin(&peer, 0, "shutdown", &o);
    json_put_i64(o, "grace_ms", 0);
    peer_send(r, NULL, 0);
    if (!CHECK(peer_until(&peer, "lost:GUEST_LOST")))
        kill(pid, SIGKILL);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    peer_close(&peer);
    unlink(address.sun_path);
    CHECK_INT(rmdir(dir), 0);
}

static void read_file(int fd, const char *want) {
    char got[64] = "";
    CHECK(pread(fd, got, sizeof got - 1, 0) >= 0);
    CHECK_STR(got, want);
    close(fd);
}

static void start_program(const int *fds) {
    static const char *const words[] = {"/bin/sh", "-c", "echo \"$GREETING\"; exit 3"};
    static const char *const roles[] = {"stdout", "stderr", "status"};
    struct json_out *o;
    struct request *r = peer_begin(&peer, 0, "exec", &o);
    json_put_str(o, "exec_id", STR("ex-1"));
    json_key(o, "argv");
    json_open(o, '[');
    for (size_t i = 0; i < COUNT_OF(words); i++)
        json_str(o, str_of(words[i]));
    json_close(o, ']');
    json_key(o, "env");
    json_raw(o, STR("[{\"key\":\"GREETING\",\"value\":\"hi there\"}]"));
    json_key(o, "output");
    json_raw(o, STR("{\"policy\":\"drop_oldest\",\"limit_bytes\":1048576}"));
    json_key(o, "fd_roles");
    json_open(o, '[');
    for (size_t i = 0; i < COUNT_OF(roles); i++)
        json_str(o, str_of(roles[i]));
    json_close(o, ']');
    peer_send(r, fds, 3);
}

TEST(guest_link_works_with_the_real_guest) {
    char path[4096];
    if (!guest_path(path, sizeof path)) {
        test_skip("no berm-guest beside the unit tests");
        return;
    }
    pid_t pid = guest_start(path);
    connect_to_guest();
    CHECK(peer_until(&peer, "ready "));
    CHECK(guest_link_has(peer.link, "files") && guest_link_passes_fds(peer.link));

    int fds[3];
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = open(dir, O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    start_program(fds);
    CHECK(peer_until(&peer, "notice:exited"));
    CHECK(strstr(peer.log, "r0=ok ") != NULL);
    read_file(fds[0], "hi there\n");
    read_file(fds[1], "");
    close(fds[2]);

    struct json_out *o;
    struct request *r = peer_begin(&peer, 1, "read", &o);
    r->keeps = true;
    json_put_str(o, "path", STR("/etc/hostname"));
    peer_send(r, NULL, 0);
    CHECK(peer_until(&peer, "r1=ok "));
    struct stat st;
    CHECK(fstat(r->kept_fd, &st) == 0 && S_ISREG(st.st_mode));
    close(r->kept_fd);
    r = peer_begin(&peer, 2, "stat", &o);
    json_put_str(o, "path", STR("/no/such/file"));
    peer_send(r, NULL, 0);
    CHECK(peer_until(&peer, "r2=FILE_NOT_FOUND "));
    r = peer_begin(&peer, 3, "stat", &o);
    peer_send(r, NULL, 0);
    CHECK(peer_until(&peer, "r3=INVALID_ARGUMENT "));
    CHECK(peer.last.field[0] != '\0');
    peer_ask(&peer, 4, "dance", NULL, 0);
    CHECK(peer_until(&peer, "r4=UNIMPLEMENTED "));

    /* The guest and its programs outlive the link. */
    peer_close(&peer);
    connect_to_guest();
    CHECK_LOG(&peer, "exec:ex-1 ready ");
    guest_end(pid);
}
