/* Mounts and namespaces: a program cannot attach, detach, enter or leave any. */
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "probe.h"

#define MS_RDONLY_ 1
#define MS_REMOUNT_ 32
#define MS_BIND_ 4096

static const char *mount_point(void) {
    const char *path = scratch("point");
    mkdir(path, 0755);
    return path;
}
static long do_mount(const char *type, const char *data) {
    const char *at = mount_point();
    long r = call(SYS_mount, (long)"none", (long)at, (long)type, 0, (long)data);
    if (r == 0)
        syscall(SYS_umount2, at, 2);
    return r;
}

PROBE(mount_tmpfs, "plain", "EPERM", "EPERM", "ns") { return do_mount("tmpfs", ""); }
PROBE(mount_proc, "plain", "EPERM", "EPERM", "ns") { return do_mount("proc", ""); }
PROBE(mount_sysfs, "plain", "EPERM", "EPERM", "ns") { return do_mount("sysfs", ""); }
PROBE(mount_cgroup2, "plain", "EPERM", "EPERM", "ns") { return do_mount("cgroup2", ""); }
PROBE(mount_cgroup1, "plain", "EPERM", "EPERM", "ns") { return do_mount("cgroup", "memory"); }
PROBE(mount_devpts, "plain", "EPERM", "EPERM", "ns") { return do_mount("devpts", ""); }
PROBE(mount_mqueue, "plain", "EPERM", "EPERM", "ns") { return do_mount("mqueue", ""); }
PROBE(mount_devtmpfs, "plain", "EPERM", "EPERM", "ns") { return do_mount("devtmpfs", ""); }
PROBE(mount_overlay, "plain", "EPERM", "EPERM", "ns") {
    return do_mount("overlay", "lowerdir=/usr/bin:/usr/sbin");
}
PROBE(mount_bind, "plain", "EPERM", "EPERM", "ns") {
    const char *at = mount_point();
    long r = call(SYS_mount, (long)"/", (long)at, 0, MS_BIND_, 0);
    if (r == 0)
        syscall(SYS_umount2, at, 2);
    return r;
}
/* /dev is read-only inside. The control uses a read-only tmpfs instead. */
static const char *read_only_mount(void) {
    if (!in_control)
        return "/dev";
    const char *at = mount_point();
    syscall(SYS_mount, "none", at, "tmpfs", MS_RDONLY_, 0);
    return at;
}
PROBE(remount_writable, "plain", "EPERM", "EPERM", "ns") {
    return call(SYS_mount, 0, (long)read_only_mount(), 0, MS_REMOUNT_ | MS_BIND_, 0);
}
PROBE(setattr_writable, "plain", "EPERM", "EPERM", "ns") {
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    return call(SYS_mount_setattr, AT_FDCWD, (long)read_only_mount(), 0, (long)&attr, sizeof attr);
}
PROBE(remount_usr, "plain", "EPERM", "EPERM", "ns:EINVAL|ok") {
    return call(SYS_mount, 0, (long)"/usr", 0, MS_REMOUNT_ | MS_BIND_, 0);
}
CALL(fsopen_tmpfs, "EPERM", "ns", SYS_fsopen, (long)"tmpfs", 0)
CALL(fsconfig_nothing, "EPERM", "ns:EBADF|EINVAL", SYS_fsconfig, -1, 6, 0, 0, 0)
CALL(fsmount_nothing, "EPERM", "ns:EBADF", SYS_fsmount, -1, 0, 0)
CALL(fspick_root, "EPERM", "ns", SYS_fspick, AT_FDCWD, (long)"/proc", 0)
CALL(open_tree_clone, "EPERM", "ns", SYS_open_tree, AT_FDCWD, (long)"/", OPEN_TREE_CLONE)
CALL(open_tree_attr, "EPERM", "ns", 467, AT_FDCWD, (long)"/", OPEN_TREE_CLONE, 0, 0)
CALL(move_mount_proc, "EPERM", "ns:EINVAL|EBUSY|ELOOP|ok", SYS_move_mount, AT_FDCWD, (long)"/proc", AT_FDCWD,
     (long)"/proc", 0)
CALL(statmount_any, "ENOSYS", "ns:EFAULT|EINVAL", 457, 0, 0, 0, 0)
CALL(listmount_any, "ENOSYS", "ns:EFAULT|EINVAL", 458, 0, 0, 0, 0)

PROBE(umount_root, "plain", "EPERM", "EPERM", "ns:EINVAL|EBUSY|ok") {
    return call(SYS_umount2, (long)"/", 2);
}
PROBE(umount_proc, "plain", "EPERM", "EPERM", "ns") {
    return call(SYS_umount2, (long)"/proc", 2);
}
PROBE(umount_mask, "plain", "EPERM", "EPERM", "ns:ok|EINVAL") {
    return call(SYS_umount2, (long)"/proc/kallsyms", 2);
}
PROBE(pivot_root, "plain", "EPERM", "EPERM", "ns:ok|EINVAL|EBUSY") {
    return call(SYS_pivot_root, (long)"/tmp", (long)"/tmp");
}

/* The classic chroot escape: keep a directory open, change the root below it, then go up from
 * it. */
PROBE(chroot_escape, "plain", "EPERM", "EPERM", "ns") {
    struct stat top, now;
    int outside = open("/", O_RDONLY | O_DIRECTORY);
    stat("/", &top);
    long r = call(SYS_chroot, (long)mount_point());
    if (r < 0)
        return r;
    if (fchdir(outside) < 0 || stat(".", &now) < 0)
        return -errno;
    return now.st_ino == top.st_ino && now.st_dev == top.st_dev ? 0 : SAFE;
}
/* Going up from any descriptor ends at the same root. The control is in a chroot with a descriptor
 * from outside, where going up does lead out. */
PROBE(dotdot_chain, "plain", "safe", "safe", "ns") {
    static const char *const places[] = {"/", "/proc/self/root", "/proc/self/cwd", "/dev/pts", "/dev/shm",
                                         "/usr/bin", "/sys/devices/system/cpu", "/proc/sys/kernel"};
    int outside = open("/usr/bin", O_RDONLY | O_DIRECTORY);
    if (in_control && chroot(mount_point()) < 0)
        return -errno;
    struct stat top, up;
    stat("/", &top);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int at = in_control ? dup(outside) : open(places[i], O_PATH | O_DIRECTORY);
        for (int depth = 0; at >= 0 && depth < 40; depth++) {
            int next = openat(at, "..", O_PATH | O_DIRECTORY);
            close(at);
            at = next;
        }
        if (at >= 0 && fstat(at, &up) == 0 && (up.st_ino != top.st_ino || up.st_dev != top.st_dev))
            return 0;
        if (at >= 0)
            close(at);
    }
    return SAFE;
}

#define UNSHARE(name, flag, place) \
    PROBE(unshare_##name, "plain", "EPERM", "EPERM", place) { return call(SYS_unshare, flag); }
UNSHARE(user, CLONE_NEWUSER, "user")
UNSHARE(mnt, CLONE_NEWNS, "ns")
UNSHARE(pid, CLONE_NEWPID, "ns")
UNSHARE(net, CLONE_NEWNET, "ns")
UNSHARE(ipc, CLONE_NEWIPC, "ns")
UNSHARE(uts, CLONE_NEWUTS, "ns")
UNSHARE(cgroup, CLONE_NEWCGROUP, "ns")
UNSHARE(time, 0x80, "ns")

static long clone_with(unsigned long flags) {
    long pid = call(SYS_clone, (long)(flags | SIGCHLD), 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}
#define CLONE(name, flag, place) \
    PROBE(clone_##name, "plain", "EPERM", "EPERM", place) { return clone_with(flag); }
CLONE(user, CLONE_NEWUSER, "user")
CLONE(mnt, CLONE_NEWNS, "ns")
CLONE(pid, CLONE_NEWPID, "ns")
CLONE(net, CLONE_NEWNET, "ns")
CLONE(ipc, CLONE_NEWIPC, "ns")
CLONE(uts, CLONE_NEWUTS, "ns")
CLONE(cgroup, CLONE_NEWCGROUP, "ns")
CLONE(user_high_bits, CLONE_NEWUSER | (1UL << 40), "user")

static long clone3_with(uint64_t flags) {
    uint64_t args[11] = {flags, 0, 0, 0, SIGCHLD};
    long pid = call(SYS_clone3, (long)args, sizeof args);
    if (pid == 0)
        _exit(0);
    return pid;
}
PROBE(clone3_plain, "plain", "ENOSYS", "ENOSYS", "host") { return clone3_with(0); }
PROBE(clone3_user, "plain", "ENOSYS", "ENOSYS", "user") { return clone3_with(CLONE_NEWUSER); }
PROBE(clone3_all, "plain", "ENOSYS", "ENOSYS", "user") {
    return clone3_with(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID);
}
/* All attacks from a nested user namespace need one first. */
PROBE(nested_mount, "plain", "EPERM", "EPERM", "user") {
    long r = call(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
    return r < 0 ? r : call(SYS_mount, (long)"none", (long)"/tmp", (long)"tmpfs", 0, 0);
}

static long join(const char *path) {
    long fd = open_fd(path, O_RDONLY);
    return fd < 0 ? fd : call(SYS_setns, fd, 0);
}
PROBE(setns_mnt, "plain", "EPERM", "EPERM", "ns") { return join("/proc/self/ns/mnt"); }
PROBE(setns_net, "plain", "EPERM", "EPERM", "ns") { return join("/proc/self/ns/net"); }
PROBE(setns_uts, "plain", "EPERM", "EPERM", "ns") { return join("/proc/self/ns/uts"); }
PROBE(setns_pid, "plain", "EPERM", "EPERM", "ns") { return join("/proc/self/ns/pid"); }
PROBE(setns_user, "plain", "EPERM", "EPERM", "ns:EINVAL") { return join("/proc/self/ns/user"); }
PROBE(setns_pidfd, "plain", "EPERM", "EPERM", "ns") {
    long fd = call(SYS_pidfd_open, getpid(), 0);
    return fd < 0 ? fd : call(SYS_setns, fd, CLONE_NEWNET);
}
/* Opens the parent or owner of a namespace. */
static long above(const char *path, unsigned long request) {
    long fd = open_fd(path, O_RDONLY);
    return fd < 0 ? fd : call(SYS_ioctl, fd, (long)request, 0);
}
PROBE(ns_parent_user, "plain", "EPERM", "EPERM", "none:the host's namespace has no parent") {
    return above("/proc/self/ns/user", 0xb702);
}
PROBE(ns_parent_pid, "plain", "EPERM", "EPERM", "none:a parent is shown only to those who are in it") {
    return above("/proc/self/ns/pid", 0xb702);
}
PROBE(ns_owner_of_net, "plain", "EPERM", "EPERM", "ns") { return above("/proc/self/ns/net", 0xb701); }
PROBE(ns_next_mount_ns, "plain", "EPERM|ENOENT|ENOTTY", "EPERM|ENOENT|ENOTTY", "host:ok|ENOENT") {
    uint64_t info[3] = {24};
    long fd = open_fd("/proc/self/ns/mnt", O_RDONLY);
    return fd < 0 ? fd : call(SYS_ioctl, fd, 0x8018b70b, (long)info);
}

/* The path of the state directory contains a word that must not be visible inside. (The path of a
 * bound directory is visible below the root of its file system, because the kernel shows it.) */
PROBE(mountinfo_layers, "plain", "safe", "safe", "ns") {
    if (in_control) {
        char data[600];
        const char *at = mount_point();
        snprintf(data, sizeof data, "lowerdir=%s:/usr/bin", given("ESCAPE_SCRATCH"));
        long r = call(SYS_mount, (long)"none", (long)at, (long)"overlay", 0, (long)data);
        if (r < 0)
            return r;
    }
    return file_has("/proc/self/mountinfo", given("ESCAPE_STATE_WORD")) ? 0 : SAFE;
}

static long make_node(mode_t type, dev_t device) {
    const char *path = scratch("node");
    long r = mknod(path, type | 0666, device) < 0 ? -errno : 0;
    unlink(path);
    return r;
}
PROBE(mknod_char, "plain", "EPERM", "EPERM", "ns") { return make_node(S_IFCHR, makedev(1, 1)); }
PROBE(mknod_block, "plain", "EPERM", "EPERM", "ns") { return make_node(S_IFBLK, makedev(254, 0)); }
PROBE(mknod_whiteout, "plain", "EPERM", "EPERM", "ns") { return make_node(S_IFCHR, 0); }
PROBE(device_in_bind, "bind", "EACCES", "EACCES", "host") {
    char path[512];
    snprintf(path, sizeof path, "%s/device", in_control ? given("ESCAPE_BIND") : "/bind");
    return try_open(path, O_RDONLY);
}
PROBE(device_in_image, "image", "EACCES", "EACCES", "host") {
    char path[512];
    snprintf(path, sizeof path, "%s/device", in_control ? given("ESCAPE_IMAGE") : "");
    return try_open(path, O_RDONLY);
}

/* Executes a setuid, setgid or capability copy of this program, which reports what it gained. */
static long run_marked(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", in_control ? given("ESCAPE_IMAGE") : "", name);
    pid_t pid = fork();
    if (pid == 0) {
        execl(path, path, "act", "privileged", (char *)NULL);
        _exit(99);
    }
    int status;
    waitpid(pid, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    return code == 1 ? 0 : code == 0 ? SAFE : -ENOEXEC;
}
PROBE(setuid_in_image, "image", "safe", "-", "user") { return run_marked("setuid"); }
PROBE(setgid_in_image, "image", "safe", "-", "user") { return run_marked("setgid"); }
PROBE(file_caps_in_image, "image", "safe", "safe", "user") { return run_marked("caps"); }

static long set_attr(const char *name, const void *value, size_t n) {
    const char *path = scratch("attr");
    close(open(path, O_CREAT | O_WRONLY, 0644));
    long r = setxattr(path, name, value, n, 0) < 0 ? -errno : 0;
    unlink(path);
    return r;
}
PROBE(xattr_trusted_redirect, "plain", "EPERM|EOPNOTSUPP", "EPERM|EOPNOTSUPP", "host") {
    return set_attr("trusted.overlay.redirect", "/", 1);
}
PROBE(xattr_trusted_opaque, "plain", "EPERM|EOPNOTSUPP", "EPERM|EOPNOTSUPP", "host") {
    return set_attr("trusted.overlay.opaque", "y", 1);
}
PROBE(xattr_security_any, "plain", "EPERM|EOPNOTSUPP", "EPERM|EOPNOTSUPP", "host") {
    return set_attr("security.berm", "y", 1);
}
PROBE(xattr_capability, "plain", "EPERM|EOPNOTSUPP", "EPERM|EOPNOTSUPP", "host") {
    uint32_t caps[5] = {0x02000001, 1 << 21, 0, 0, 0};
    return set_attr("security.capability", caps, sizeof caps);
}
