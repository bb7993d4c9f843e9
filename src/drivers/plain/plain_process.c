/* plain_process — starts, connects to and kills a guest that is an ordinary process. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/fd.h"
#include "drivers/peer.h"
#include "drivers/plain/plain_impl.h"

#define GUEST_FD 3 /* plain_spawn contains this number as text, too */
#define KILL_ROUNDS 100
#define KILL_PAUSE_US 1000
#define END_WAIT_MS 1000
#define DEPTH_MAX 64

extern char **environ;

static void plain_address(const struct plain *p, const char *id, struct sockaddr_un *ret_addr) {
    *ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret_addr->sun_path, sizeof ret_addr->sun_path, "/proc/self/fd/%d/%s.sock", p->dir_fd,
             id);
}

static int plain_bind(const struct plain *p, const char *id) {
    struct sockaddr_un addr;
    plain_address(p, id, &addr);
    unlink(addr.sun_path);
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* Starts the guest in its own session, so that a Ctrl-C in the daemon's terminal does not reach
 * it. */
static int plain_spawn(const struct plain *p, const char *id, int sock, int dir, pid_t *ret_pid) {
    char name[INSTANCE_ID_MAX + 16]; /* shows the id in process lists */
    char *const argv[] = {name, "--fd", "3", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all;
    snprintf(name, sizeof name, "berm-guest@%s", id);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addfchdir_np(&actions, dir);
    posix_spawn_file_actions_adddup2(&actions, sock, GUEST_FD);
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int failed = posix_spawn(ret_pid, p->guest, &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -failed;
}

int plain_process_start(const struct plain *p, const char *id, struct err *e) {
    pid_t pid;
    AUTO_CLOSE int dir = fd_make_dir(p->dir_fd, id, 0700);
    if (dir < 0)
        return err_sys(e, ERR_PLACE_FAILED, -dir, "make the directory of %s", id);
    AUTO_CLOSE int sock = plain_bind(p, id);
    int r = sock < 0 ? sock : plain_spawn(p, id, sock, dir, &pid);
    if (r < 0)
        return err_sys(e, ERR_PLACE_FAILED, -r, "start %s", p->guest);
    int pid_fd = pidfd_open(pid, 0);
    if (pid_fd < 0) {
        kill(pid, SIGKILL);
        return err_sys(e, ERR_PLACE_FAILED, errno, "watch the guest of %s", id);
    }
    return pid_fd;
}

int plain_process_connect(const struct plain *p, const char *id, struct err *e) {
    struct sockaddr_un addr;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    plain_address(p, id, &addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_sys(e, ERR_GUEST_LOST, errno, "connect to the guest of %s", id);
    return TAKE_FD(fd);
}

/* --- the end --- */

static pid_t plain_pid_of(int pid_fd) {
    char name[64], text[1024];
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", pid_fd);
    const char *at =
        fd_read_text(AT_FDCWD, name, text, sizeof text) > 0 ? strstr(text, "\nPid:") : NULL;
    return at ? (pid_t)strtol(at + 5, NULL, 10) : -1;
}

static bool plain_is_zombie(pid_t pid) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    const char *at =
        fd_read_text(AT_FDCWD, name, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    return !at || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X';
}

/* Kills the descendants of that process. Returns how many were alive. */
static unsigned plain_kill_below(pid_t pid, unsigned depth) {
    char name[64], text[4096];
    unsigned n = 0;
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (depth == DEPTH_MAX || fd_read_text(AT_FDCWD, name, text, sizeof text) <= 0)
        return 0;
    for (char *at = text, *end; *at; at = *end ? end + 1 : end) {
        pid_t child = (pid_t)strtol(at, &end, 10);
        if (end == at || child <= 1)
            break;
        n += plain_kill_below(child, depth + 1);
        if (!plain_is_zombie(child)) {
            kill(child, SIGKILL);
            n++;
        }
    }
    return n;
}

/* Stops the guest first, so that it starts no new program and remains the parent of orphans until
 * all are killed. */
void plain_process_kill(int pid_fd) {
    pid_t pid = plain_pid_of(pid_fd);
    pidfd_send_signal(pid_fd, SIGSTOP, NULL, 0);
    for (int i = 0; pid > 1 && i < KILL_ROUNDS && plain_kill_below(pid, 0) > 0; i++)
        usleep(KILL_PAUSE_US);
    pidfd_send_signal(pid_fd, SIGKILL, NULL, 0);
}

static void plain_remove_dir(const struct plain *p, const char *id) {
    char path[96];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", p->dir_fd, id);
    char *const roots[] = {path, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *at; walk && (at = fts_read(walk));) {
        if (at->fts_info == FTS_DP)
            rmdir(at->fts_accpath);
        else if (at->fts_info != FTS_D)
            unlink(at->fts_accpath);
    }
    if (walk)
        fts_close(walk);
}

void plain_process_remove(const struct plain *p, const char *id, bool with_files) {
    struct err e;
    struct sockaddr_un addr;
    AUTO_CLOSE int link = plain_process_connect(p, id, &e);
    AUTO_CLOSE int pid_fd = link < 0 ? -1 : peer_pidfd(link);
    if (pid_fd >= 0) {
        struct pollfd end = {.fd = pid_fd, .events = POLLIN};
        plain_process_kill(pid_fd);
        (void)!poll(&end, 1, END_WAIT_MS);
    }
    plain_address(p, id, &addr);
    unlink(addr.sun_path);
    if (with_files)
        plain_remove_dir(p, id);
}
