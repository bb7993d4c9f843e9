#include "spawn/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "spawn/sys.h"

int userns_map(int proc, pid_t pid, const char *uid_line, const char *gid_line) {
    char path[40];
    snprintf(path, sizeof path, "%d/uid_map", (int)pid);
    int r = fd_write_text(proc, path, uid_line);
    if (r < 0)
        return r;
    snprintf(path, sizeof path, "%d/gid_map", (int)pid);
    return fd_write_text(proc, path, gid_line);
}

int userns_be_maker(void) {
    return (int)sys3(SYS_setresuid, USERNS_MAKER, 0, 0);
}

int userns_creator(uint32_t uid) {
    struct rlimit now, next;
    if (getrlimit(RLIMIT_NPROC, &now) < 0)
        return -errno;
    next = now;
    /* The new namespace takes this as its limit on processes. */
    next.rlim_cur = uid != 0 ? MIN(8192, now.rlim_max) : now.rlim_max;
    long r = sys3(SYS_setresuid, -1, uid, 0);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (r == 0)
        r = sys2(SYS_capget, (long)&head, (long)data);
    if (r == 0) {
        data[0].effective = data[0].permitted;
        data[1].effective = data[1].permitted;
        r = sys2(SYS_capset, (long)&head, (long)data);
    }
    if (r == 0 && setrlimit(RLIMIT_NPROC, &next) < 0)
        r = -errno;
    return (int)r;
}

int userns_open(int proc, pid_t pid) {
    char path[40];
    snprintf(path, sizeof path, "%d/ns/user", (int)pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The process ends immediately. Only its namespace matters, which can be mapped and opened until
 * the process is reaped. */
static int userns_end_at_once(void *arg) {
    (void)arg;
    return 0;
}

int userns_for_mount(int proc, const struct userns_part *parts, unsigned n) {
    char uids[128] = "", gids[128] = "";
    for (unsigned i = 0; i < n; i++) {
        const struct userns_part *p = &parts[i];
        size_t u = strlen(uids), g = strlen(gids);
        snprintf(uids + u, sizeof uids - u, "%u %u %u\n", p->uid, p->outer, p->count);
        snprintf(gids + g, sizeof gids - g, "%u %u %u\n", p->gid, p->outer, p->count);
    }
    _Alignas(16) uint8_t stack[2048]; /* sharing our memory is much cheaper than a fork */
    /* No exit signal, because SIGCHLD would make us check every child. */
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_VM | CLONE_FILES,
                              .stack = (uint64_t)(uintptr_t)stack,
                              .stack_size = sizeof stack};
    long pid = sys_clone_on_stack(&args, userns_end_at_once, NULL);
    if (pid < 0)
        return (int)pid;
    int fd = userns_map(proc, (pid_t)pid, uids, gids);
    if (fd == 0)
        fd = userns_open(proc, (pid_t)pid);
    while (waitpid((pid_t)pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return fd;
}
