/* sys — raw system calls that return -errno and do not touch memory.
 *
 * Between clone3 and execveat a child shares the parent's memory: libc's wrappers would write the
 * parent's errno, and its setresuid would wait for threads that do not exist. berm-init, which
 * links no libc, uses this header too. */
#pragma once

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long ret;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "berm-spawn supports x86-64 and arm64"
#endif

static inline long sys0(long nr) {
    return sys6(nr, 0, 0, 0, 0, 0, 0);
}
static inline long sys1(long nr, long a) {
    return sys6(nr, a, 0, 0, 0, 0, 0);
}
static inline long sys2(long nr, long a, long b) {
    return sys6(nr, a, b, 0, 0, 0, 0);
}
static inline long sys3(long nr, long a, long b, long c) {
    return sys6(nr, a, b, c, 0, 0, 0);
}
static inline long sys4(long nr, long a, long b, long c, long d) {
    return sys6(nr, a, b, c, d, 0, 0);
}
static inline long sys5(long nr, long a, long b, long c, long d, long e) {
    return sys6(nr, a, b, c, d, e, 0);
}

static inline int sys_openat(int dir, const char *path, int flags, int mode) {
    return (int)sys4(SYS_openat, dir, (long)path, flags, mode);
}
static inline int sys_close(int fd) {
    return (int)sys1(SYS_close, fd);
}
static inline long sys_write(int fd, const void *bytes, size_t n) {
    return sys3(SYS_write, fd, (long)bytes, (long)n);
}
static inline int sys_fsopen(const char *type) {
    return (int)sys2(SYS_fsopen, (long)type, 1 /* FSOPEN_CLOEXEC */);
}
static inline int sys_fsconfig(int fs, unsigned cmd, const char *key, const void *value, int aux) {
    return (int)sys5(SYS_fsconfig, fs, (long)cmd, (long)key, (long)value, aux);
}
static inline int sys_fsmount(int fs, unsigned attrs) {
    return (int)sys3(SYS_fsmount, fs, 1 /* FSMOUNT_CLOEXEC */, (long)attrs);
}
/* Returns a detached copy of the mount at `dir` ("" for path: dir itself), without submounts. */
static inline int sys_clone_tree(int dir, const char *path) {
    return (int)sys3(SYS_open_tree, dir, (long)path,
                     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | 0x1000 /* AT_EMPTY_PATH */);
}
/* Attaches the detached mount `from`. If to_path is "", the target is `to_dir` itself. */
static inline int sys_attach(int from, int to_dir, const char *to_path) {
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*to_path == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0);
    return (int)sys5(SYS_move_mount, from, (long)"", to_dir, (long)to_path, (long)flags);
}
static inline int sys_mount_setattr(int dir, const char *path, const struct mount_attr *attr) {
    return (int)sys5(SYS_mount_setattr, dir, (long)path, 0x1000 /* AT_EMPTY_PATH */, (long)attr,
                     sizeof *attr);
}

/* Renames without replacing an existing file; some libcs lack the call. */
static inline int sys_rename_new(int from_dir, const char *from, int to_dir, const char *to) {
    return (int)sys5(SYS_renameat2, from_dir, (long)from, to_dir, (long)to,
                     1 /* RENAME_NOREPLACE */);
}

/* Calls clone3 for a child that shares our memory and needs its own stack. The child runs fn(arg)
 * and exits with its result. `args->stack` and `stack_size` must be set. Returns the pid or
 * -errno. */
long sys_clone_on_stack(struct clone_args *args, int (*fn)(void *), void *arg);
