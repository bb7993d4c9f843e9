#include "spawn/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
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

int userns_creator(uint32_t uid) {
    struct rlimit now, next;
    if (getrlimit(RLIMIT_NPROC, &now) < 0)
        return -errno;
    next = now;
    next.rlim_cur = uid != 0 ? MIN(8192, now.rlim_max) : now.rlim_max; /* of the whole namespace */
    long r = sys3(SYS_setresuid, uid, uid, 0);
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

int userns_for_mount(int proc, uint32_t disk_uid, uint32_t disk_gid, uint32_t outer,
                     uint32_t count) {
    int pidfd = -1;
    struct clone_args args = {.flags = CLONE_NEWUSER | CLONE_PIDFD,
                              .exit_signal = SIGCHLD,
                              .pidfd = (uint64_t)(uintptr_t)&pidfd};
    long pid = sys2(SYS_clone3, (long)&args, sizeof args);
    if (pid < 0)
        return (int)pid;
    if (pid == 0) /* only its namespace matters; it waits to be killed */
        for (;;)
            sys4(SYS_ppoll, 0, 0, 0, 0);
    char uid_line[48], gid_line[48];
    snprintf(uid_line, sizeof uid_line, "%u %u %u\n", disk_uid, outer, count);
    snprintf(gid_line, sizeof gid_line, "%u %u %u\n", disk_gid, outer, count);
    int fd = userns_map(proc, (pid_t)pid, uid_line, gid_line);
    if (fd == 0)
        fd = userns_open(proc, (pid_t)pid);
    kill((pid_t)pid, SIGKILL);
    while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(pidfd);
    return fd;
}
