/* berm-init: PID 1 of a sandbox that runs one program. It links no libc and is a few kilobytes.
 *
 *     berm-init UID CWD PROGRAM ARGS...
 *
 * It starts PROGRAM (looked up in PATH) as UID with an empty bounding set or, for UID 0, with
 * what the sandbox has left; reaps whatever is orphaned to it; and exits as PROGRAM did, 128 +
 * the signal when that was its end. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <signal.h>

#include "base/exec_filter.h"
#include "spawn/sys.h"

enum { NOT_STARTED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

int start(char **stack);
__attribute__((noreturn)) static void leave(int code) {
    for (;;)
        sys1(SYS_exit_group, code);
}

/* Linked without libc, yet the compiler may call these. */
void *memset(void *to, int byte, size_t n);
void *memset(void *to, int byte, size_t n) {
    for (volatile char *p = to; n > 0; n--)
        *p++ = (char)byte;
    return to;
}

static size_t length(const char *s) {
    size_t n = 0;
    while (s[n] != '\0')
        n++;
    return n;
}

static void say(const char *a, const char *b, const char *c) {
    const char *parts[] = {"berm: ", a, b, c, "\n"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        sys_write(2, parts[i], length(parts[i]));
}

static const char *find_env(char **env, const char *name) {
    size_t n = length(name);
    for (; *env != NULL; env++) {
        size_t i = 0;
        while (i < n && (*env)[i] == name[i])
            i++;
        if (i == n && (*env)[n] == '=')
            return *env + n + 1;
    }
    return NULL;
}

static long number(const char *s) {
    long value = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        value = value * 10 + (*s - '0');
    return value;
}

/* Out of memory takes the program first and PID 1 last; raising the score needs no right. */
static void put(const char *path, const char *text) {
    int fd = sys_openat(AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd >= 0) {
        sys_write(fd, text, length(text));
        sys_close(fd);
    }
}

static long drop_rights(long uid) {
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

static long filter_clone3(void) {
    struct sock_filter code[EXEC_FILTER_LEN] = EXEC_FILTER_CODE;
    struct sock_fprog prog = {EXEC_FILTER_LEN, code};
    return sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog);
}

/* Like execvp: a name without a slash is looked for along PATH. Returns the reason it did not
 * run. */
static long exec_along_path(char **argv, char **env) {
    const char *name = argv[0], *path = find_env(env, "PATH");
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
        if (n + length(name) >= sizeof full)
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

/* The new process shares our memory, and we wait, until it runs PROGRAM: a copy would cost more than all the
 * rest of this program. */
static int run(void *words) {
    char **argv = words, **env = argv;
    while (*env++ != NULL)
        ;
    long uid = number(argv[1]);
    const char *cwd = argv[2];
    argv += 3;
    put("/proc/self/oom_score_adj", "500");
    put("/proc/self/loginuid",
        uid == 0 ? "0" : "1000"); /* once set it stays: audit knows the range */
    long r = sys1(SYS_chdir, (long)cwd);
    if (r < 0) {
        say("cannot enter ", cwd, "");
        leave(NOT_STARTED);
    }
    r = drop_rights(uid);
    if (r == 0)
        r = filter_clone3();
    if (r < 0) {
        say("cannot drop rights", "", "");
        leave(NOT_STARTED);
    }
    r = exec_along_path(argv, env);
    say(argv[0], r == -ENOENT ? ": not found" : ": cannot be executed", "");
    leave(r == -ENOENT ? NOT_FOUND : NOT_EXECUTABLE);
}

int start(char **stack) {
    long argc = *(long *)stack;
    char **argv = stack + 1;
    if (argc < 4)
        leave(NOT_STARTED);
    sys5(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    static _Alignas(16) char its_stack[16384];
    struct clone_args args = {.flags = CLONE_VM | CLONE_VFORK,
                              .exit_signal = SIGCHLD,
                              .stack = (uint64_t)(uintptr_t)its_stack,
                              .stack_size = sizeof its_stack};
    long pid = sys_clone_on_stack(&args, run, argv);
    if (pid < 0)
        leave(NOT_STARTED);
    sys3(SYS_close_range, 0, ~0u, 0); /* a pipe must end when the program ends */
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
