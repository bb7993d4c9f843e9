#include "spawn/net.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "spawn/sys.h"

/* Raw system calls only, because net_prepare_one runs this in a child that shares our memory. */
static int net_make_fresh(void) {
    long r = sys1(SYS_unshare, CLONE_NEWNET);
    if (r < 0)
        return (int)r;
    long sock = sys3(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return (int)sock;
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    r = sys3(SYS_ioctl, sock, SIOCSIFFLAGS, (long)&req);
    sys_close((int)sock);
    return (int)r;
}

static int net_open_current(void) {
    return sys_openat(AT_FDCWD, "/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC, 0);
}

/* Creates one namespace per credit byte. Ends when the other side is closed. */
static void net_pool_process(int sock) {
    char credit;
    while (read(sock, &credit, 1) == 1) {
        int r = net_make_fresh();
        AUTO_CLOSE int ns = r < 0 ? r : net_open_current();
        if (ns < 0)
            return;
        if (fd_send(sock, "n", 1, &ns, 1) < 0)
            return;
    }
}

int net_pool_start(struct net_pool *p, unsigned ahead) {
    *p = (struct net_pool){.sock = -1, .pid = -1, .once = -1, .once_ns = -1};
    if (ahead == 0)
        return 0;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid < 0) {
        fd_close_all(pair, 2);
        return -errno;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Keep only the socket, so that this process keeps no mount or sandbox alive. */
        if (dup3(pair[1], 3, O_CLOEXEC) < 0 && pair[1] != 3)
            _exit(1);
        sys3(SYS_close_range, 4, ~0u, 0);
        net_pool_process(3);
        _exit(0);
    }
    close(pair[1]);
    p->sock = pair[0];
    p->pid = pid;
    p->ahead = p->owed = MIN(ahead, NET_POOL_MAX);
    net_pool_refill(p);
    return p->owed == 0 ? 0 : -EIO;
}

void net_pool_refill(struct net_pool *p) {
    static const char credits[NET_POOL_MAX];
    if (p->owed > 0 && p->sock >= 0 && send(p->sock, credits, p->owed, MSG_NOSIGNAL) == p->owed)
        p->owed = 0; /* if send fails, the next net_take notices */
}

/* Returns a namespace that is ready, or -EAGAIN. */
static int net_take(struct net_pool *p) {
    struct pollfd ready = {.fd = p->sock, .events = POLLIN};
    if (p->sock < 0 || poll(&ready, 1, 0) != 1)
        return -EAGAIN;
    int ns = -1;
    char byte;
    size_t n_fds = 0;
    ssize_t n = fd_recv(p->sock, &byte, 1, &ns, 1, &n_fds);
    if (n != 1 || n_fds != 1) { /* the pool process ended: continue without it */
        close(p->sock);
        p->sock = -1;
        p->owed = 0;
        return -EAGAIN;
    }
    if (++p->owed > p->ahead / 2)
        net_pool_refill(p);
    return ns;
}

static int net_make_once(void *arg) {
    struct net_pool *p = arg;
    int r = net_make_fresh();
    p->once_ns = r < 0 ? r : net_open_current();
    return 0;
}

void net_prepare_one(struct net_pool *p) {
    const size_t stack_bytes = 16384;
    void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0); /* never unmapped */
    if (stack == MAP_FAILED)
        return; /* net_enter_fresh then creates a namespace itself */
    struct clone_args args = {.flags = CLONE_VM | CLONE_FILES,
                              .exit_signal = SIGCHLD,
                              .stack = (uint64_t)(uintptr_t)stack,
                              .stack_size = stack_bytes};
    p->once = (pid_t)sys_clone_on_stack(&args, net_make_once, p);
}

static int net_take_once(struct net_pool *p) {
    while (waitpid(p->once, NULL, 0) < 0)
        if (errno != EINTR)
            return -errno;
    p->once = -1;
    return p->once_ns;
}

int net_enter_fresh(struct net_pool *p) {
    AUTO_CLOSE int ns = p->once > 0 ? net_take_once(p) : net_take(p);
    if (ns < 0 && ns != -EAGAIN)
        return ns;
    if (ns == -EAGAIN)
        return net_make_fresh();
    return setns(ns, CLONE_NEWNET) < 0 ? -errno : 0;
}
