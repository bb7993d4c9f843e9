/* /proc, /sys and /dev: files that control or reveal the host are absent, empty or read-only. Files
 * that would harm the host are opened for writing but never written. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "probe.h"

#define SHUT "ENOENT|EROFS|EACCES|EPERM"
#define SYSCTL(name, path) \
    PROBE(sysctl_##name, "plain", SHUT, SHUT, "host") { return try_open("/proc/sys/" path, O_WRONLY); }
SYSCTL(core_pattern, "kernel/core_pattern")
SYSCTL(modprobe, "kernel/modprobe")
SYSCTL(hotplug, "kernel/hotplug")
SYSCTL(sysrq, "kernel/sysrq")
SYSCTL(panic, "kernel/panic")
SYSCTL(pid_max, "kernel/pid_max")
SYSCTL(hostname, "kernel/hostname")
SYSCTL(shmmax, "kernel/shmmax")
SYSCTL(msgmni, "kernel/msgmni")
SYSCTL(ns_last_pid, "kernel/ns_last_pid")
SYSCTL(binfmt_register, "fs/binfmt_misc/register")
SYSCTL(file_max, "fs/file-max")
SYSCTL(suid_dumpable, "fs/suid_dumpable")
SYSCTL(protected_symlinks, "fs/protected_symlinks")
SYSCTL(swappiness, "vm/swappiness")
SYSCTL(drop_caches, "vm/drop_caches")
SYSCTL(overcommit, "vm/overcommit_memory")
SYSCTL(ip_forward, "net/ipv4/ip_forward")
SYSCTL(tcp_mem, "net/ipv4/tcp_mem")
SYSCTL(max_user_namespaces, "user/max_user_namespaces")
SYSCTL(max_mnt_namespaces, "user/max_mnt_namespaces")
SYSCTL(max_inotify, "user/max_inotify_instances")

PROBE(proc_sysrq_trigger, "plain", SHUT, SHUT, "host") { return try_open("/proc/sysrq-trigger", O_WRONLY); }
PROBE(proc_mtrr, "plain", SHUT, SHUT, "host") { return try_open("/proc/mtrr", O_WRONLY); }

#define QUIET SHUT "|safe"
#define TELLS(name, path) \
    PROBE(tells_##name, "plain", QUIET, QUIET, "host") { return try_read(path); }
TELLS(kcore, "/proc/kcore")
TELLS(keys, "/proc/keys")
TELLS(key_users, "/proc/key-users")
TELLS(timer_list, "/proc/timer_list")
TELLS(sched_debug, "/proc/sched_debug")
TELLS(kpagecount, "/proc/kpagecount")
TELLS(kpageflags, "/proc/kpageflags")
TELLS(kpagecgroup, "/proc/kpagecgroup")
TELLS(config, "/proc/config.gz")
TELLS(modules, "/proc/modules")
TELLS(iomem, "/proc/iomem")
TELLS(interrupts, "/proc/interrupts")
TELLS(slabinfo, "/proc/slabinfo")
TELLS(vmallocinfo, "/proc/vmallocinfo")
TELLS(pagetypeinfo, "/proc/pagetypeinfo")
TELLS(diskstats, "/proc/diskstats")
TELLS(partitions, "/proc/partitions")
TELLS(kmsg, "/proc/kmsg")
TELLS(boot_parameters, "/proc/cmdline")
TELLS(pressure, "/proc/pressure/memory")

PROBE(kallsyms_addresses, "plain", QUIET, QUIET, "host") {
    char line[128] = "";
    FILE *f = fopen("/proc/kallsyms", "r");
    if (f == NULL)
        return -errno;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "0000000000000000", 16) != 0 && strstr(line, " T ") != NULL)
            return 0;
    return SAFE;
}

/* PID 1 of the sandbox, or of the control's pid namespace. */
#define PID1(name, attempt) PROBE(pid1_##name, "plain", SHUT, SHUT, "ns") { return attempt; }
static long list_dir(const char *path) {
    DIR *d = opendir(path);
    if (d == NULL)
        return -errno;
    int n = 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n > 2 ? n : SAFE;
}
static long follow(const char *path) {
    char target[256];
    return readlink(path, target, sizeof target) < 0 ? -errno : 0;
}
PID1(environ, try_read("/proc/1/environ"))
PID1(maps, try_read("/proc/1/maps"))
PID1(mem, try_open("/proc/1/mem", O_RDONLY))
PID1(mem_write, try_open("/proc/1/mem", O_RDWR))
PID1(auxv, try_read("/proc/1/auxv"))
PID1(status, try_read("/proc/1/status"))
PID1(cmdline, try_read("/proc/1/cmdline"))
PID1(fds, list_dir("/proc/1/fd"))
PID1(fdinfo, list_dir("/proc/1/fdinfo"))
PID1(map_files, list_dir("/proc/1/map_files"))
PID1(root, try_open("/proc/1/root/", O_RDONLY | O_DIRECTORY))
PID1(cwd, try_open("/proc/1/cwd/", O_RDONLY | O_DIRECTORY))
PID1(exe, follow("/proc/1/exe"))
PID1(exe_open, try_open("/proc/1/exe", O_RDONLY))
PID1(ns_mnt, try_open("/proc/1/ns/mnt", O_RDONLY))
PID1(ns_user, try_open("/proc/1/ns/user", O_RDONLY))
PID1(mountinfo, try_read("/proc/1/mountinfo"))
/* The stack is empty while the process runs; the control's process wakes every millisecond. */
static long read_stack(void) {
    long r = SAFE;
    for (int i = 0; r == SAFE && i < 200; i++, usleep(i * 10))
        r = try_read("/proc/1/stack");
    return r;
}
PID1(stack, read_stack())
PID1(syscall, try_read("/proc/1/syscall"))
PID1(oom_score_adj, try_open("/proc/1/oom_score_adj", O_WRONLY))
PROBE(pid1_exe_write, "plain", SHUT, SHUT, "ns:ETXTBSY") { return try_open("/proc/1/exe", O_WRONLY); }
PROBE(self_exe_write, "plain", "EROFS|EACCES|ETXTBSY", "EROFS|EACCES|ETXTBSY", "host:ETXTBSY") {
    return try_open("/proc/self/exe", O_WRONLY);
}

/* More than a handful of processes would be the host's. */
PROBE(foreign_processes, "plain", "safe", "safe", "host") {
    int n = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        n += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    return n > 8 ? n : SAFE;
}

PROBE(pagemap_frames, "plain", "safe|EPERM|EACCES", "safe|EPERM|EACCES", "host") {
    uint64_t entry = 0;
    static char page[8192] = {1};
    page[4096] = 2;
    long fd = open_fd("/proc/self/pagemap", O_RDONLY);
    if (fd < 0)
        return fd;
    if (pread((int)fd, &entry, 8, (off_t)((uintptr_t)(page + 4096) / 4096 * 8)) != 8)
        return -errno;
    return (entry & ((1ULL << 55) - 1)) != 0 ? 0 : SAFE;
}
PROBE(map_files, "plain", "EPERM|EACCES|ENOENT", "EPERM|EACCES|ENOENT", "host") {
    char path[120];
    unsigned long from, to;
    FILE *f = fopen("/proc/self/maps", "r");
    if (f == NULL || fscanf(f, "%lx-%lx", &from, &to) != 2)
        return -EIO;
    snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", from, to);
    return try_open(path, O_RDONLY);
}

PROBE(oom_lower, "plain", "EACCES", "EACCES", "host") { return try_write("/proc/self/oom_score_adj", "-900"); }
PROBE(oom_own_lower, "plain", "EACCES", "EACCES", "host") {
    return try_write("/proc/self/oom_score_adj", "-1");
}
PROBE(uid_map_again, "plain", "EPERM|EACCES", "EPERM|EACCES", "user") {
    if (in_control && syscall(SYS_unshare, CLONE_NEWUSER) < 0)
        return -errno;
    return try_write("/proc/self/uid_map", in_control ? "0 1000 1" : "0 0 1");
}
PROBE(setgroups_file, "plain", "EPERM|EACCES", "EPERM|EACCES", "user") {
    if (in_control && syscall(SYS_unshare, CLONE_NEWUSER) < 0)
        return -errno;
    return try_write("/proc/self/setgroups", "deny");
}
PROBE(loginuid, "plain", SHUT, SHUT, "host") { return try_write("/proc/self/loginuid", "0"); }
PROBE(attr_current, "plain", SHUT "|EINVAL", SHUT "|EINVAL", "host") {
    return try_write("/proc/self/attr/current", "unconfined");
}
PROBE(autogroup_nice, "plain", SHUT "|EAGAIN", SHUT "|EAGAIN", "host") {
    return try_write("/proc/self/autogroup", "-10");
}

/* /dev contains what programs need and nothing else. */
PROBE(dev_entries, "plain", "safe", "safe", "host") {
    static const char *const usual[] = {".", "..", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr",
                                        "stdin", "stdout", "tty", "urandom", "zero"};
    DIR *d = opendir("/dev");
    if (d == NULL)
        return -errno;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        bool known = false;
        for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
            known |= strcmp(e->d_name, usual[i]) == 0;
        if (!known)
            return 0;
    }
    return SAFE;
}
#define DEVICE(name, path) \
    PROBE(dev_##name, "plain", "ENOENT", "ENOENT", "host") { return try_open("/dev/" path, O_RDONLY); }
DEVICE(kmsg, "kmsg")
DEVICE(mem, "mem")
DEVICE(port, "port")
DEVICE(kvm, "kvm")
DEVICE(fuse, "fuse")
DEVICE(loop_control, "loop-control")
DEVICE(loop0, "loop0")
DEVICE(disk, "vda")
DEVICE(tun, "net/tun")
DEVICE(vsock, "vsock")
DEVICE(userfaultfd, "userfaultfd")
DEVICE(btrfs, "btrfs-control")
DEVICE(autofs, "autofs")
DEVICE(latency, "cpu_dma_latency")
DEVICE(hwrng, "hwrng")
DEVICE(msr, "cpu/0/msr")
DEVICE(terminal, "tty0")
DEVICE(screen, "vcs1")
DEVICE(console, "console")
DEVICE(zram, "zram0")
DEVICE(vga, "vga_arbiter")

/* The control gets its own /dev to change. */
static const char *dev_file(const char *name) {
    static char path[600];
    if (in_control) {
        const char *dir = scratch("dev");
        mkdir(dir, 0755);
        snprintf(path, sizeof path, "%s/null", dir);
        mknod(path, S_IFCHR | 0666, makedev(1, 3));
        snprintf(path, sizeof path, "%s/%s", dir, name);
    } else {
        snprintf(path, sizeof path, "/dev/%s", name);
    }
    return path;
}
#define FIXED "EROFS|EPERM|EACCES"
#define RESULT(x) ((x) < 0 ? -errno : 0)
PROBE(dev_chmod, "plain", FIXED, FIXED, "ns") { return RESULT(chmod(dev_file("null"), 0666)); }
PROBE(dev_chown, "plain", FIXED, FIXED, "ns") { return RESULT(chown(dev_file("null"), 1, 1)); }
PROBE(dev_unlink, "plain", FIXED, FIXED, "ns") { return RESULT(unlink(dev_file("null"))); }
PROBE(dev_create, "plain", FIXED, FIXED, "ns") { return try_open(dev_file("new"), O_CREAT | O_WRONLY); }
PROBE(dev_rename, "plain", FIXED, FIXED, "ns") {
    char from[600];
    snprintf(from, sizeof from, "%s", dev_file("null"));
    return RESULT(rename(from, dev_file("other")));
}
PROBE(dev_symlink, "plain", FIXED "|EEXIST", FIXED "|EEXIST", "ns") {
    return RESULT(symlink("/", dev_file("way")));
}
/* Standard input is the host's own /dev/null. The probe sets its mode to the current value. */
PROBE(host_null_chmod, "plain", "EPERM|EROFS", "EPERM|EROFS", "host") { return RESULT(fchmod(0, 0666)); }
PROBE(host_null_times, "plain", "EPERM|EROFS", "EPERM|EROFS", "host") {
    struct stat st;
    fstat(0, &st);
    struct timespec same[2] = {st.st_atim, st.st_mtim};
    return RESULT(futimens(0, same));
}

#define ABSENT(name, path) \
    PROBE(sys_##name, "plain", "ENOENT", "ENOENT", "host") { return try_open(path, O_RDONLY); }
ABSENT(firmware, "/sys/firmware")
ABSENT(kernel, "/sys/kernel")
ABSENT(security, "/sys/kernel/security")
ABSENT(debug, "/sys/kernel/debug")
ABSENT(tracing, "/sys/kernel/tracing")
ABSENT(btf, "/sys/kernel/btf/vmlinux")
ABSENT(cgroup, "/sys/fs/cgroup")
ABSENT(bpf, "/sys/fs/bpf")
ABSENT(block, "/sys/block")
ABSENT(class, "/sys/class/net")
ABSENT(bus, "/sys/bus")
ABSENT(module, "/sys/module")
ABSENT(power, "/sys/power/state")
ABSENT(dmi, "/sys/class/dmi/id/product_uuid")
#define HOOK(name, path) \
    PROBE(hook_##name, "plain", "ENOENT|EROFS|EACCES", "ENOENT|EROFS|EACCES", "host") { \
        return try_open(path, O_WRONLY);                                                \
    }
HOOK(uevent_helper, "/sys/kernel/uevent_helper")
HOOK(release_agent, "/sys/fs/cgroup/memory/release_agent")
HOOK(notify_on_release, "/sys/fs/cgroup/memory/notify_on_release")
HOOK(devices_allow, "/sys/fs/cgroup/devices/devices.allow")
HOOK(cgroup_procs, "/sys/fs/cgroup/cgroup.procs")
HOOK(cgroup_procs_hybrid, "/sys/fs/cgroup/unified/cgroup.procs")
HOOK(cpu_online, "/sys/devices/system/cpu/online")

/* Namespaces show their own root, so the position on the host is hidden. The root is the cgroup of
 * PID 1. A program in another exec cgroup sees its number, after the prefix in
 * ESCAPE_EXEC_CGROUP. */
static bool tells_nothing(const char *path) {
    size_t n = strlen(given("ESCAPE_EXEC_CGROUP"));
    if (n == 0 || strncmp(path, given("ESCAPE_EXEC_CGROUP"), n) != 0)
        return strcmp(path, "/\n") == 0;
    size_t digits = strspn(path + n, "0123456789");
    return digits > 0 && strcmp(path + n + digits, "\n") == 0;
}
PROBE(cgroup_path, "plain", "safe", "safe", "none:the control would have to sit in a cgroup of its own") {
    char line[512];
    int n = 0;
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        const char *second = strchr(line, ':') ? strchr(strchr(line, ':') + 1, ':') : NULL;
        if (second == NULL || !tells_nothing(second + 1))
            return 0;
        n++;
    }
    return n > 0 ? SAFE : -ENOENT;
}
