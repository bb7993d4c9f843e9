/* A PID 1 for tests of what berm-guest relies on: it listens on descriptor 3, takes exec cgroups by
 * message and starts a sleeping program in each with CLONE_INTO_CGROUP, as root inside and under
 * the sandbox's filter. Answers each message with one int: the new pid, or -errno. */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"

/* v1: the cgroup is a `tasks` file, which the child joins by itself. */
static int start_v1(int tasks) {
    int ready[2];
    char byte = 0;
    if (pipe(ready) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        byte = write(tasks, "0", 1) == 1;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        close(tasks);
        for (;;)
            pause();
    }
    int r = read(ready[0], &byte, 1) == 1 && byte ? pid : -EACCES;
    close(ready[0]);
    close(ready[1]);
    return r;
}

static int start_in(int cgroup) {
    struct stat st;
    if (fstat(cgroup, &st) == 0 && S_ISREG(st.st_mode))
        return start_v1(cgroup);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup};
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        close(cgroup);
        for (;;)
            pause();
    }
    return pid < 0 ? -errno : (int)pid;
}

int main(void) {
    prctl(PR_SET_DUMPABLE, 0);
    signal(SIGCHLD, SIG_IGN);
    if (listen(3, 4) < 0)
        return 2;
    for (;;) {
        int conn = accept(3, NULL, NULL);
        char byte;
        int cgroup = -1;
        size_t n = 0;
        while (conn >= 0 && fd_recv(conn, &byte, 1, &cgroup, 1, &n) == 1) {
            int answer = n == 1 ? start_in(cgroup) : -EBADMSG;
            if (n == 1)
                close(cgroup);
            if (send(conn, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
                break;
        }
        if (conn >= 0)
            close(conn);
    }
}
