/* System calls: the arguments are chosen so that a call that gets through does no harm. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "probe.h"

CALL(bpf, "EPERM", "host:EINVAL", SYS_bpf, -1, 0, 0)
CALL(perf_event_open, "EPERM", "host:EFAULT", SYS_perf_event_open, 0, 0, -1, -1, 0)
CALL(kexec_load, "EPERM", "host:EINVAL|EPERM", SYS_kexec_load, 0, 0, 0, -1)
CALL(kexec_file_load, "EPERM", "host:EINVAL|EPERM", 320, -1, -1, 0, 0, -1)
CALL(init_module, "EPERM", "host:EFAULT|EINVAL|ENOEXEC", SYS_init_module, 0, 0, 0)
CALL(finit_module, "EPERM", "host:EBADF|EINVAL", SYS_finit_module, -1, 0, -1)
CALL(delete_module, "EPERM", "host:ENOENT", SYS_delete_module, (long)"berm_no_such", O_NONBLOCK)
CALL(userfaultfd, "EPERM", "host", SYS_userfaultfd, 0)
CALL(userfaultfd_user_mode, "EPERM", "user", SYS_userfaultfd, 1)
CALL(fanotify_init, "EPERM", "host", SYS_fanotify_init, 0, 0)
CALL(fanotify_init_user, "EPERM", "user", SYS_fanotify_init, 0x200, 0)
CALL(fanotify_mark, "EPERM", "host:EBADF|EINVAL", SYS_fanotify_mark, -1, 1, 1, AT_FDCWD, (long)"/")
CALL(name_to_handle_at, "EPERM", "user:EOVERFLOW|EFAULT", SYS_name_to_handle_at, AT_FDCWD, (long)"/usr", 0, 0, 0)
CALL(quotactl, "EPERM", "host:EINVAL|ENODEV|ENOENT|EFAULT", SYS_quotactl, -1, 0, 0, 0)
CALL(quotactl_fd, "EPERM", "host:EINVAL|EBADF", 443, -1, -1, 0, 0)
CALL(acct, "EPERM", "host:ENOENT", SYS_acct, (long)"/berm/no/such/file")
CALL(swapon, "EPERM", "host:ENOENT", SYS_swapon, (long)"/berm/no/such/file", 0)
CALL(swapoff, "EPERM", "host:ENOENT", SYS_swapoff, (long)"/berm/no/such/file")
CALL(reboot, "EPERM", "host:EINVAL", SYS_reboot, 0, 0, 0, 0)
CALL(syslog_size, "EPERM", "host", SYS_syslog, 10, 0, 0)
CALL(settimeofday, "EPERM", "host", SYS_settimeofday, 0, 0)
CALL(clock_settime, "EPERM", "host:EINVAL|EFAULT", SYS_clock_settime, 0, 0)
CALL(clock_adjtime, "EPERM", "host:EFAULT", SYS_clock_adjtime, 0, 0)
CALL(adjtimex, "EPERM", "host:EFAULT", SYS_adjtimex, 0)
CALL(iopl, "EPERM", "host", SYS_iopl, 3)
CALL(ioperm, "EPERM", "host", SYS_ioperm, 0x80, 1, 1)
CALL(sethostname, "EPERM", "ns", SYS_sethostname, (long)"escaped", 7)
CALL(setdomainname, "EPERM", "ns", SYS_setdomainname, (long)"escaped", 7)
CALL(modify_ldt, "EPERM", "user", SYS_modify_ldt, 0, 0, 0)
CALL(lookup_dcookie, "EPERM", "host:EINVAL|EFAULT", 212, 0, 0, 0)
CALL(ustat, "EPERM", "user:EINVAL|EFAULT", SYS_ustat, 0, 0)
CALL(sysfs_call, "EPERM", "user", SYS_sysfs, 3)
CALL(uselib, "EPERM", "user:EFAULT|ENOENT", SYS_uselib, 0)
CALL(io_uring_setup, "ENOSYS", "user:EFAULT|EINVAL", 425, 1, 0)
CALL(io_uring_enter, "ENOSYS", "user:EBADF", 426, -1, 0, 0, 0, 0, 0)
CALL(io_uring_register, "ENOSYS", "user:EBADF|EINVAL", 427, -1, 0, 0, 0)
CALL(memfd_secret, "ENOSYS", "user", 447, 0)
CALL(keyctl_session, "EPERM", "user", SYS_keyctl, 0, -3, 1)
CALL(add_key, "EPERM", "user", SYS_add_key, (long)"user", (long)"berm-escape", (long)"x", 1, -2)
CALL(request_key, "EPERM", "user:ENOKEY", SYS_request_key, (long)"user", (long)"berm-no-such", 0, -2)
CALL(mbind, "EPERM", "user", SYS_mbind, 0, 0, 0, 0, 0, 0)
CALL(set_mempolicy, "EPERM", "user", SYS_set_mempolicy, 0, 0, 0)
CALL(get_mempolicy, "EPERM", "user", SYS_get_mempolicy, 0, 0, 0, 0, 0)
CALL(move_pages, "EPERM", "user", SYS_move_pages, 0, 0, 0, 0, 0, 0)
CALL(migrate_pages, "EPERM", "user:EFAULT|EINVAL|ok", SYS_migrate_pages, 0, 0, 0, 0)
CALL(process_madvise, "EPERM", "user:EBADF|EINVAL", 440, -1, 0, 0, 0, 0)
CALL(listns, "ENOSYS", "host:EFAULT|EINVAL|ok", 470, 0, 0, 0, 0)
CALL(lsm_list_modules, "ENOSYS", "user:EFAULT|EINVAL", 461, 0, 0, 0)
CALL(file_setattr, "ENOSYS", "host:EFAULT|EINVAL", 469, AT_FDCWD, (long)"/tmp", 0, 0, 0)
CALL(personality_exec, "EPERM", "user", SYS_personality, 0x0400000)
CALL(personality_mmap0, "EPERM", "user", SYS_personality, 0x0100000)
CALL(personality_uname, "EPERM", "user", SYS_personality, 0x0020000 | 0x0400000)
PROBE(vhangup, "plain", "EPERM", "EPERM", "host") {
    setsid(); /* so that there is no terminal to hang up */
    return call(SYS_vhangup);
}

/* An ext4 handle is an inode number and a generation; 2 is the root directory of the file
 * system. */
PROBE(open_by_guessed_handle, "plain", "EPERM", "EPERM", "host") {
    struct {
        unsigned bytes;
        int type;
        uint32_t ino, gen;
    } handle = {8, 1, 2, 0};
    int at = open(in_control ? given("ESCAPE_BIND") : "/usr", O_RDONLY | O_DIRECTORY);
    return at < 0 ? -errno : call(SYS_open_by_handle_at, at, (long)&handle, O_RDONLY | O_DIRECTORY);
}

/* PID 1 of the sandbox, or of the control's namespace. */
#define NOT_MINE "EPERM|ESRCH|EACCES"
PROBE(ptrace_pid1, "plain", NOT_MINE, NOT_MINE, "ns") { return call(SYS_ptrace, PTRACE_SEIZE, 1, 0, 0); }
PROBE(ptrace_attach_pid1, "plain", NOT_MINE, NOT_MINE, "none:stopping the control's PID 1 stops the control") {
    return call(SYS_ptrace, PTRACE_ATTACH, 1, 0, 0);
}
static long peek_pid1(long number) {
    char here[8];
    struct iovec mine = {here, 8}, theirs = {(void *)0x400000, 8};
    return call(number, 1, (long)&mine, 1, (long)&theirs, 1, 0);
}
PROBE(vm_read_pid1, "plain", NOT_MINE, NOT_MINE, "ns:ok|EFAULT") { return peek_pid1(SYS_process_vm_readv); }
PROBE(vm_write_pid1, "plain", NOT_MINE, NOT_MINE, "ns:ok|EFAULT") { return peek_pid1(SYS_process_vm_writev); }
PROBE(kcmp_pid1, "plain", NOT_MINE, NOT_MINE, "ns") { return call(SYS_kcmp, 1, getpid(), 1, 0, 0); }
PROBE(pidfd_getfd_pid1, "plain", NOT_MINE, NOT_MINE, "ns") {
    long fd = call(SYS_pidfd_open, 1, 0);
    return fd < 0 ? fd : call(SYS_pidfd_getfd, fd, 0, 0);
}
/* Sets the current value. A lower one would take away PID 1's descriptors, output or life. */
PROBE(prlimit_pid1, "plain", NOT_MINE, NOT_MINE, "ns") {
    struct rlimit now;
    long r = call(SYS_prlimit64, 1, RLIMIT_NOFILE, 0, (long)&now);
    return r < 0 ? r : call(SYS_prlimit64, 1, RLIMIT_NOFILE, (long)&now, 0);
}
PROBE(robust_list_pid1, "plain", NOT_MINE, NOT_MINE, "ns") {
    void *head;
    size_t n;
    return call(SYS_get_robust_list, 1, (long)&head, (long)&n);
}
PROBE(nice_pid1, "plain", NOT_MINE, "EPERM|ESRCH|EACCES|ok", "ns") {
    return setpriority(PRIO_PROCESS, 1, 5) < 0 ? -errno : 0;
}
PROBE(affinity_pid1, "plain", NOT_MINE, "EPERM|ESRCH|EACCES|ok", "ns") {
    unsigned long all = ~0UL;
    return call(SYS_sched_setaffinity, 1, sizeof all, (long)&all);
}
PROBE(core_cookie_pid1, "plain", NOT_MINE "|ENODEV|EINVAL", NOT_MINE "|ENODEV|EINVAL", "ns") {
    unsigned long cookie;
    return prctl(62, 0, 1, 0, &cookie) < 0 ? -errno : 0;
}
PROBE(strict_ptrace, "strict", "EPERM", "EPERM", "user") { return call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0); }
PROBE(strict_vm_read, "strict", "EPERM", "EPERM", "user") {
    char a[8] = "secret", b[8];
    struct iovec mine = {b, 8}, theirs = {a, 8};
    return call(SYS_process_vm_readv, getpid(), (long)&mine, 1, (long)&theirs, 1, 0);
}
PROBE(strict_proc_meminfo, "strict", "ENOENT", "ENOENT", "user") { return try_read("/proc/meminfo"); }
PROBE(strict_proc_sys, "strict", "ENOENT", "ENOENT", "user") {
    return try_read("/proc/sys/kernel/random/boot_id");
}
PROBE(strict_proc_cmdline, "strict", "ENOENT", "ENOENT", "user") { return try_read("/proc/cmdline"); }

/* Calls that do not exist yet must look absent, whatever a newer kernel supports. */
PROBE(unknown_numbers, "plain", "safe", "safe", "none:this kernel has no call above the last known one") {
    for (long n = 471; n < 1024; n++)
        if (syscall(n, 0, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS)
            return n;
    return SAFE;
}
PROBE(gap_numbers, "plain", "safe", "safe", "none:the kernel leaves these numbers empty") {
    for (long n = 337; n < 424; n++) /* 335 and 336 belong to the kernel's own probes, see below */
        if (syscall(n, 0, 0, 0, 0, 0, 0) >= 0 || errno != ENOSYS)
            return n;
    return SAFE;
}
/* The kernel lets these two past every filter and kills any caller but its own trampoline. */
PROBE(uretprobe_number, "plain", "SIGILL|ENOSYS", "SIGILL|ENOSYS", "none:outside it is the same signal") {
    return call(335);
}
PROBE(uprobe_number, "plain", "SIGILL|ENOSYS|ENXIO|EPROTO", "SIGILL|ENOSYS|ENXIO", "none:outside it is the same") {
    return call(336);
}
PROBE(number_high_bits, "plain", "EPERM", "EPERM", "ns") {
    return call((long)(0x100000000UL | SYS_mount), (long)"none", (long)"/tmp", (long)"tmpfs", 0, 0);
}
PROBE(number_negative, "plain", "ENOSYS|SIGSYS", "ENOSYS|SIGSYS", "none:no call has a negative number") {
    return call(-5);
}
#ifdef __x86_64__
static long int80(long nr, long a) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a) : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}
PROBE(i386_getpid, "plain", "SIGSYS", "SIGSYS", "user") { return int80(20, 0); }
PROBE(i386_unshare, "plain", "SIGSYS", "SIGSYS", "user") { return int80(310, CLONE_NEWUSER); }
PROBE(i386_socketcall, "plain", "SIGSYS", "SIGSYS", "user:EFAULT|EINVAL") { return int80(102, 1); }
PROBE(x32_getpid, "plain", "SIGSYS", "SIGSYS", "user") { return call(0x40000000 | SYS_getpid); }
PROBE(x32_mount, "plain", "SIGSYS", "SIGSYS", "none:x32 is seldom built in, and the number is what is judged") {
    return call(0x40000000 | SYS_mount, 0, 0, 0, 0, 0);
}
#endif

/* Programs cannot install filters, because all filters of the host share one budget. A tracer
 * cannot change the number either. */
static long allow_all(void) {
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog prog = {1, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog);
}
PROBE(filter_over_filter, "plain", "EINVAL", "EINVAL", "user") {
    long r = allow_all();
    return r < 0 ? r : call(SYS_unshare, CLONE_NEWUSER);
}
PROBE(filter_by_prctl, "plain", "EINVAL", "EINVAL", "user") {
    struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog prog = {1, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0 ? -errno : 0;
}
/* With this, the control turns a harmless call into unshare(CLONE_NEWUSER). */
#ifdef __x86_64__
PROBE(tracer_changes_number, "plain", "EPERM", "EPERM", "user") {
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        long r = syscall(SYS_alarm, CLONE_NEWUSER);
        _exit(r == 0 ? 0 : errno);
    }
    int status;
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0, (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    for (;;) {
        if (ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0)
            return -errno;
        waitpid(pid, &status, 0);
        if (WIFEXITED(status))
            return WEXITSTATUS(status) == 0 ? 0 : -WEXITSTATUS(status);
        if (WIFSIGNALED(status))
            return -EIO;
        struct user_regs_struct regs;
        ptrace(PTRACE_GETREGS, pid, 0, &regs);
        if (regs.orig_rax == SYS_alarm && regs.rdi == CLONE_NEWUSER) {
            regs.orig_rax = SYS_unshare;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        }
    }
}
#endif
/* A supervisor that answers "continue" only decides for its own filter. */
PROBE(notify_continue, "plain", "EINVAL", "EINVAL", "user") {
    struct sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                                 {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_unshare},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog prog = {4, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long listener = call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, (long)&prog);
    if (listener < 0)
        return listener;
    pid_t pid = fork();
    if (pid == 0) {
        long r = call(SYS_unshare, CLONE_NEWUSER);
        _exit(r < 0 ? (int)-r : 0);
    }
    fcntl((int)listener, F_SETFL, O_NONBLOCK);
    int status = 0;
    for (int turn = 0; turn < 2000 && waitpid(pid, &status, WNOHANG) != pid; turn++) {
        struct seccomp_notif ask = {0};
        struct pollfd ready = {(int)listener, POLLIN, 0};
        if (poll(&ready, 1, 1) == 1 && (ready.revents & POLLIN) &&
            ioctl((int)listener, SECCOMP_IOCTL_NOTIF_RECV, &ask) == 0) {
            struct seccomp_notif_resp say = {.id = ask.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
            ioctl((int)listener, SECCOMP_IOCTL_NOTIF_SEND, &say);
        }
    }
    return WIFEXITED(status) ? (WEXITSTATUS(status) ? -WEXITSTATUS(status) : 0) : -EIO;
}

/* Identity and capabilities. */
PROBE(prctl_set_mm, "plain", "EPERM|EINVAL", "EPERM|EINVAL", "host") {
    return prctl(PR_SET_MM, 1 /* START_CODE */, 0x400000, 0, 0) < 0 ? -errno : 0;
}
PROBE(prctl_exe_file, "plain", "EPERM|EINVAL", "EPERM|EINVAL", "host:EBADF|EBUSY|ok") {
    return prctl(PR_SET_MM, 13 /* EXE_FILE */, 0, 0, 0) < 0 ? -errno : 0;
}
PROBE(securebits, "plain", "EPERM", "EPERM", "host") { return prctl(PR_SET_SECUREBITS, 0, 0, 0, 0) < 0 ? -errno : 0; }
PROBE(keep_caps, "plain", "EPERM", "EPERM", "host") { return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : 0; }
PROBE(ambient_caps, "plain", "EPERM", "EPERM", "host") {
    uint32_t head[2] = {0x20080522, 0}, data[6] = {0};
    syscall(SYS_capget, head, data);
    data[2] = data[1], data[5] = data[4]; /* inheritable as permitted */
    syscall(SYS_capset, head, data);
    return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 6 /* SETGID */, 0, 0) < 0 ? -errno : 0;
}
static long raise_cap(int cap) {
    uint32_t head[2] = {0x20080522, 0}, data[6] = {0};
    syscall(SYS_capget, head, data);
    data[cap / 32 * 3] |= 1u << cap % 32;
    data[cap / 32 * 3 + 1] |= 1u << cap % 32;
    return call(SYS_capset, (long)head, (long)data);
}
#define RAISE(name, number) PROBE(cap_##name, "plain", "EPERM", "EPERM", "host") { return raise_cap(number); }
RAISE(sys_admin, 21)
RAISE(sys_ptrace, 19)
RAISE(sys_chroot, 18)
RAISE(mknod, 27)
RAISE(net_admin, 12)
RAISE(net_raw, 13)
RAISE(setfcap, 31)
RAISE(setpcap, 8)
RAISE(dac_read_search, 2)
RAISE(sys_rawio, 17)
RAISE(sys_time, 25)
RAISE(bpf, 39)
PROBE(caps_beyond, "plain", "safe", "safe", "host") {
    /* CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE and nothing
     * else. */
    uint32_t head[2] = {0x20080522, 0}, data[6] = {0};
    syscall(SYS_capget, head, data);
    uint64_t got = data[1] | data[0] | data[2] | (uint64_t)(data[3] | data[4] | data[5]) << 32;
    for (int cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1)
            got |= 1ULL << cap;
    uint64_t may = is_root && !in_control ? 0x4fbULL & ~0ULL : 0;
    return got & ~may ? 0 : SAFE;
}
PROBE(new_privileges, "plain", "safe", "safe", "host") {
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? SAFE : 0;
}
PROBE(uid_unmapped, "plain", "EINVAL|EPERM", "EINVAL", "host") { return call(SYS_setresuid, 70000, 70000, 70000); }
PROBE(gid_unmapped, "plain", "EINVAL|EPERM", "EINVAL", "host") { return call(SYS_setresgid, 70000, 70000, 70000); }
PROBE(groups_unmapped, "plain", "EPERM", "EINVAL|EPERM", "host") {
    uint32_t group = 70000;
    return call(SYS_setgroups, 1, (long)&group);
}
PROBE(uid_root, "plain", "EPERM", "-", "host") { return call(SYS_setresuid, 0, 0, 0); }
PROBE(uid_other, "plain", "EPERM", "-", "host") { return call(SYS_setresuid, 5, 5, 5); }
PROBE(groups_drop, "plain", "EPERM", "-", "host") { return call(SYS_setgroups, 0, 0); }

/* Terminals of the sandbox's own devpts. */
static long terminal(unsigned long request, void *arg) {
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0)
        return -errno;
    int unlock = 0;
    syscall(SYS_ioctl, master, 0x40045431 /* TIOCSPTLCK */, &unlock);
    setsid();
    long slave = call(SYS_ioctl, master, 0x5441 /* TIOCGPTPEER */, O_RDWR);
    return slave < 0 ? slave : call(SYS_ioctl, slave, (long)request, (long)arg);
}
#define HIGH 0xdead00000000UL
PROBE(tiocsti, "plain", "EPERM", "EPERM", "host") { return terminal(0x5412, "x"); }
PROBE(tiocsti_high_bits, "plain", "EPERM", "EPERM", "host") { return terminal(0x5412 | HIGH, "x"); }
PROBE(tiocsetd, "plain", "EPERM", "EPERM", "host") {
    int zero = 0;
    return terminal(0x5423, &zero);
}
PROBE(tiocsetd_high_bits, "plain", "EPERM", "EPERM", "host") {
    int zero = 0;
    return terminal(0x5423 | HIGH, &zero);
}
PROBE(tioclinux, "plain", "EPERM", "EPERM", "host:ENOTTY|EINVAL") {
    char code = 6;
    return terminal(0x541c, &code);
}
PROBE(tiocvhangup, "plain", "EPERM", "EPERM", "host") { return terminal(0x5437, NULL); }
PROBE(tioccons, "plain", "EPERM", "EPERM", "none:it would redirect the host's console") {
    return terminal(0x541d, NULL);
}
PROBE(tiocsctty_force, "plain", "EPERM|ENOTTY|EIO", "EPERM|ENOTTY|EIO", "none:it would steal a terminal") {
    return call(SYS_ioctl, 0, 0x540e, 1);
}
PROBE(pty_flood, "plain", "ENOSPC", "ENOSPC", "host") {
    for (int i = 0; i < 100; i++)
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0)
            return -errno;
    return 0;
}

/* Priority, locking, limits. */
PROBE(sched_fifo, "plain", "EPERM", "EPERM", "host") {
    int priority = 1;
    return call(SYS_sched_setscheduler, 0, 1, (long)&priority);
}
PROBE(sched_deadline, "plain", "EPERM", "EPERM", "host") {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {48, 6, 0, 0, 0, 1000000, 10000000, 10000000};
    return call(SYS_sched_setattr, 0, (long)&attr, 0);
}
PROBE(nice_lower, "plain", "EACCES|EPERM", "EACCES|EPERM", "host") {
    return setpriority(PRIO_PROCESS, 0, -20) < 0 ? -errno : 0;
}
PROBE(ioprio_realtime, "plain", "EPERM", "EPERM", "host") { return call(SYS_ioprio_set, 1, 0, 1 << 13); }
PROBE(mlock_much, "plain", "ENOMEM|EPERM|EAGAIN", "ENOMEM|EPERM|EAGAIN", "host") {
    void *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return call(SYS_mlock, (long)p, 4 << 20);
}
PROBE(mlockall, "plain", "ENOMEM|EPERM", "ENOMEM|EPERM", "host") { return call(SYS_mlockall, 3); }
PROBE(map_page_zero, "plain", "EPERM|EACCES", "EPERM|EACCES", "host") {
    long r = call(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return r;
}
PROBE(rlimits_raise, "plain", "safe", "safe", "host") {
    static const int which[] = {RLIMIT_NOFILE, RLIMIT_CORE, RLIMIT_MEMLOCK, RLIMIT_MSGQUEUE,
                                RLIMIT_SIGPENDING, RLIMIT_RTPRIO, RLIMIT_NICE, RLIMIT_NPROC};
    for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
        struct rlimit now, then;
        getrlimit(which[i], &now);
        if (now.rlim_max == RLIM_INFINITY)
            return which[i];
        now.rlim_max++;
        setrlimit(which[i], &now);
        getrlimit(which[i], &then);
        if (then.rlim_max == now.rlim_max)
            return which[i];
    }
    return SAFE;
}
PROBE(timer_flood, "plain", "EAGAIN", "EAGAIN", "none:a host's own limit on timers may be as low") {
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    for (int i = 0; i < 20000; i++) {
        int id;
        long r = call(SYS_timer_create, 0, (long)&event, (long)&id);
        if (r < 0)
            return r;
    }
    return 0;
}
PROBE(signal_queue_flood, "plain", "EAGAIN", "EAGAIN", "none:a host's own limit on signals may be as low") {
    union sigval value = {0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 20000; i++)
        if (sigqueue(getpid(), SIGRTMIN + 1, value) < 0)
            return -errno;
    return 0;
}
