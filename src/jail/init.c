/* berm-init: PID 1 of a sandbox that runs one program. It links no libc and has a few kilobytes.
 *
 *     berm-init UID CWD PROGRAM ARGS...
 *
 * Starts PROGRAM (searched in PATH) as UID. The bounding set is empty or, for UID 0, what the
 * sandbox has left. If descriptor 3 is a socket, PROGRAM gets a terminal, whose master goes out
 * over the socket. berm-init reaps orphans and exits with PROGRAM's status, or 128 + the signal
 * that ended it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/exec_filter.h"
#include "spawn/sys.h"

enum { NOT_STARTED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };
enum { LINK = 3 };

int start(char **stack);
__attribute__((noreturn)) static void leave(int code) {
    for (;;)
        sys1(SYS_exit_group, code);
}

/* There is no libc, but the compiler may call this function. */
void *memset(void *to, int byte, size_t n);
void *memset(void *to, int byte, size_t n) {
    for (volatile char *p = to; n > 0; n--)
        *p++ = (char)byte;
    return to;
}

static size_t init_length(const char *s) {
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    return n;
}

static void init_say(const char *a, const char *b, const char *c) {
    const char *parts[] = {"berm: ", a, b, c, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sys_write(2, parts[i], init_length(parts[i]));
}

static const char *init_find_env(char **env, const char *name) {
    size_t n = init_length(name);
    for (; *env != NULL; env++) {
        size_t i = 0;
        while (i < n && (*env)[i] == name[i])
            i++;
        if (i == n && (*env)[n] == '=')
            return *env + n + 1;
    }
    return NULL;
}

static long init_number(const char *s) {
    long value = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        value = value * 10 + (*s - '0');
    return value;
}

/* Writes a file and ignores failures. One caller raises the OOM score, which needs no privilege, so
 * that the OOM killer takes the program before PID 1. */
static void init_put(const char *path, const char *text) {
    int fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        sys_write(fd, text, init_length(text));
        sys_close(fd);
    }
}

static long init_drop_rights(long uid) {
    long r = 0, has;
    for (long cap = 0; (has = sys2(SYS_prctl, PR_CAPBSET_READ, cap)) >= 0; cap++) {
        int wanted = uid == 0 && cap != CAP_SETPCAP;
        if (!wanted && has == 1)
            r = sys2(SYS_prctl, PR_CAPBSET_DROP, cap);
        if (r < 0)
            return r;
    }
    r = sys2(SYS_setgroups, 0, 0);
    if (r == 0)
        r = sys3(SYS_setresgid, uid, uid, uid);
    if (r == 0)
        r = sys3(SYS_setresuid, uid, uid, uid);
    return r;
}

/* The terminal belongs to the user that opens it, so PROGRAM's user opens it. */
static long init_open_terminal(void) {
    int unlock = 0;
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec byte = {"t", 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    long master = sys_openat(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
    long r = master < 0 ? master : sys3(SYS_ioctl, master, TIOCSPTLCK, (long)&unlock);
    long slave = r < 0 ? r : sys3(SYS_ioctl, master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return slave;
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)(void *)CMSG_DATA(head) = (int)master;
    r = sys3(SYS_sendmsg, LINK, (long)&message, MSG_NOSIGNAL);
    if (r > 0)
        r = sys0(SYS_setsid);
    if (r > 0)
        r = sys3(SYS_ioctl, slave, TIOCSCTTY, 0);
    for (long fd = 0; r >= 0 && fd < 3; fd++)
        r = sys3(SYS_dup3, slave, fd, 0);
    sys_close(LINK);
    return r < 0 ? r : 0;
}

static long init_filter_clone3(void) {
    struct sock_filter code[EXEC_FILTER_LEN] = EXEC_FILTER_CODE;
    struct sock_fprog prog = {EXEC_FILTER_LEN, code};
    return sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog);
}

/* Like execvp: searches PATH for a name without a slash. Returns the error. */
static long init_exec_along_path(char **argv, char **env) {
    const char *name = argv[0], *path = init_find_env(env, "PATH");
    for (const char *p = name; *p != '\0'; p++)
        if (*p == '/')
            return sys3(SYS_execve, (long)name, (long)argv, (long)env);
    if (path == NULL)
        path = "/usr/local/bin:/usr/bin:/bin";
    long worst = -ENOENT;
    char full[4096];
    while (*path != '\0') {
        size_t n = 0;
        while (*path != '\0' && *path != ':' && n < sizeof full - 2)
            full[n++] = *path++;
        path += *path == ':';
        full[n++] = '/';
        if (n + init_length(name) >= sizeof full)
            return -ENAMETOOLONG;
        for (const char *p = name; *p != '\0'; p++)
            full[n++] = *p;
        full[n] = '\0';
        long r = sys3(SYS_execve, (long)full, (long)argv, (long)env);
        if (r != -ENOENT && r != -ENOTDIR)
            worst = r;
    }
    return worst;
}

/* Runs in the new process, which shares our memory. We wait until it executes PROGRAM. Copying the
 * memory would cost more than the rest of this program. */
static int init_run(void *words) {
    char **argv = words, **env = argv;
    while (*env++ != NULL)
        ;
    long uid = init_number(argv[1]);
    const char *cwd = argv[2];
    argv += 3;
    init_put("/proc/self/oom_score_adj", "500");
    /* Nothing can change the login uid after this. The audit log shows it as a host id of this
     * sandbox. */
    init_put("/proc/self/loginuid", uid == 0 ? "0" : "1000");
    long entered = sys1(SYS_chdir, (long)cwd);
    long r = init_drop_rights(uid);
    if (r == 0 && sys2(SYS_fcntl, LINK, F_GETFD) >= 0)
        r = init_open_terminal();
    if (entered < 0) {
        init_say("cannot enter ", cwd, "");
        leave(NOT_STARTED);
    }
    if (r == 0)
        r = init_filter_clone3();
    if (r < 0) {
        init_say("cannot drop rights", "", "");
        leave(NOT_STARTED);
    }
    r = init_exec_along_path(argv, env);
    init_say(argv[0], r == -ENOENT ? ": not found" : ": cannot be executed", "");
    leave(r == -ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

int start(char **stack) {
    long argc = *(long *)stack;
    char **argv = stack + 1;
    if (argc < 4)
        leave(NOT_STARTED);
    sys5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    _Alignas(16) char its_stack[16384]; /* stays valid, because we wait for the child's exec */
    struct clone_args args = {.flags = CLONE_VM | CLONE_VFORK,
                              .exit_signal = SIGCHLD,
                              .stack = (uint64_t)(uintptr_t)its_stack,
                              .stack_size = sizeof its_stack};
    long pid = sys_clone_on_stack(&args, init_run, argv);
    if (pid < 0)
        leave(NOT_STARTED);
    sys3(SYS_close_range, 0, ~0u, 0); /* keep no pipe open after the program ends */
    for (;;) {
        int status = 0;
        long ended = sys4(SYS_wait4, -1, (long)&status, 0, 0);
        if (ended == pid)
            leave((status & 0x7f) == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f));
        if (ended < 0 && ended != -EINTR)
            leave(NOT_STARTED);
    }
}

#if defined(__x86_64__)
__asm__(
    ".globl _start\n_start: xorl %ebp, %ebp\n movq %rsp, %rdi\n andq $-16, %rsp\n call start\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: mov x29, xzr\n mov x0, sp\n bl start\n");
#endif
