/* Files: what is shared with the host or another sandbox can only be read. */
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "probe.h"

/* /bind is a host directory that is read-only inside; /shared is writable. */
static const char *bound(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", in_control ? given("ESCAPE_BIND") : "/bind", name);
    return path;
}
static const char *shared(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", in_control ? given("ESCAPE_SHARED") : "/shared", name);
    return path;
}
#define RESULT(x) ((x) < 0 ? -errno : 0)
static long try_open_mode(const char *path, int flags, mode_t mode) {
    int fd = open(path, flags, mode);
    return fd < 0 ? -errno : close(fd);
}
#define BIND(name, good) PROBE(name, "bind", good, good, "host")

BIND(bind_create, "EROFS") {
    long r = try_open(bound("new"), O_CREAT | O_WRONLY);
    if (in_control)
        unlink(bound("new"));
    return r;
}
BIND(bind_write, "EROFS") { return try_open(bound("canary"), O_WRONLY); }
BIND(bind_truncate, "EROFS") { return try_open(bound("spare"), O_WRONLY | O_TRUNC); }
BIND(bind_chmod, "EROFS") { return RESULT(chmod(bound("spare"), 0644)); }
BIND(bind_rename, "EROFS") {
    char from[600];
    snprintf(from, sizeof from, "%s", bound("spare"));
    return RESULT(rename(from, bound("spare")));
}
BIND(bind_setxattr, "EROFS|EPERM|EOPNOTSUPP") {
    return call(SYS_setxattr, (long)bound("spare"), (long)"user.x", (long)"y", 1, 0);
}
BIND(bind_tmpfile, "EROFS") { return try_open(bound("."), O_TMPFILE | O_RDWR); }
/* Reopens read-only descriptors through /proc. */
BIND(bind_reopen, "EROFS|EACCES") {
    char path[64];
    int fd = open(bound("spare"), O_RDONLY);
    if (fd < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return try_open(path, O_RDWR);
}
BIND(bind_mprotect, "EACCES") {
    int fd = open(bound("spare"), in_control ? O_RDWR : O_RDONLY);
    char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? -errno : RESULT(mprotect(p, 4096, PROT_READ | PROT_WRITE));
}
/* Ownership inside must not give power over the host's file: a lease would stop its writers for 45
 * s. */
BIND(bind_lease, "EACCES|EAGAIN|EPERM") {
    int fd = open(bound("canary"), O_RDONLY);
    return fd < 0 ? -errno : RESULT(fcntl(fd, 1024 /* F_SETLEASE */, F_RDLCK));
}
PROBE(usr_lease, "plain", "EACCES|EPERM", "EACCES|EPERM|ok", "host") {
    /* As root, the file is a private copy. */
    int fd = open("/usr/bin/env", O_RDONLY);
    return fd < 0 ? -errno : RESULT(fcntl(fd, 1024, F_RDLCK));
}
BIND(bind_parent, "safe") {
    char path[700];
    snprintf(path, sizeof path, "%s/../outside", in_control ? given("ESCAPE_BIND") : "/bind");
    long r = try_read(path);
    return r == 0 ? 0 : SAFE;
}
BIND(bind_symlink_out, "ENOENT") { return try_read(bound("to-outside")); }
BIND(bind_symlink_relative, "ENOENT") { return try_read(bound("to-outside-relative")); }
BIND(bind_magic_link, "ENOENT|EACCES|ELOOP") {
    /* A link on the host that goes through /proc leads to the reader's own root. */
    return try_read(bound("to-outside-magic"));
}
BIND(bind_hardlink_out, "EXDEV|EROFS|EPERM") {
    char from[600];
    snprintf(from, sizeof from, "%s", bound("canary"));
    const char *to = scratch("link");
    long r = RESULT(link(from, to));
    unlink(to);
    return r;
}
BIND(bind_fifo_write, "EACCES|EROFS|ENXIO|EPERM") {
    /* Without a reader, ENXIO means that it could have been written. */
    long r = try_open(bound("fifo"), O_WRONLY);
    return in_control && r == -ENXIO ? 0 : r;
}

/* Files created in a writable directory must stay ordinary files on the host; `run` checks them
 * there. */
static long marked(const char *name, mode_t bit, long r) {
    struct stat st;
    const char *path = shared(name);
    bool has = stat(path, &st) == 0 && (st.st_mode & bit);
    if (in_control)
        unlink(path);
    return r < 0 ? r : has ? 0 : SAFE;
}
/* Creates an ordinary file, then sets the bit with one of the calls that can. */
static long mark(const char *name, mode_t bit, long (*by)(int fd, const char *path, long mode)) {
    char path[600];
    snprintf(path, sizeof path, "%s", shared(name));
    int fd = open(path, O_CREAT | O_WRONLY, 0755);
    return fd < 0 ? -errno : marked(name, bit, by(fd, path, 0755 | (long)bit));
}
static long by_fchmod(int fd, const char *path, long mode) {
    (void)path;
    return RESULT(fchmod(fd, (mode_t)mode));
}
static long by_fchmodat(int fd, const char *path, long mode) {
    (void)fd;
    return call(SYS_fchmodat, AT_FDCWD, (long)path, mode);
}
static long by_fchmodat2(int fd, const char *path, long mode) {
    (void)fd;
    return call(452, AT_FDCWD, (long)path, mode, 0);
}
#define MARK(name) PROBE(name, "bind", "EPERM", "EPERM", "host")
MARK(shared_setuid) { return mark("setuid", S_ISUID, by_fchmod); }
MARK(shared_setgid) { return mark("setgid", S_ISGID, by_fchmod); }
MARK(shared_setuid_at) { return mark("setuid-at", S_ISUID, by_fchmodat); }
MARK(shared_setuid_at2) { return mark("setuid-at2", S_ISUID, by_fchmodat2); }
MARK(shared_setuid_open) {
    return marked("born", S_ISUID, try_open_mode(shared("born"), O_CREAT | O_WRONLY, 04755));
}
MARK(shared_setgid_open) {
    return marked("born-g", S_ISGID, try_open_mode(shared("born-g"), O_CREAT | O_WRONLY, 02755));
}
MARK(shared_setuid_mknod) {
    return marked("node-u", S_ISUID, RESULT(mknod(shared("node-u"), S_IFREG | 04755, 0)));
}
/* A file without a name that gets one afterwards. */
MARK(shared_setuid_tmpfile) {
    char link_from[64];
    int fd = open(shared("."), O_TMPFILE | O_WRONLY, 04755);
    if (fd < 0)
        return -errno;
    snprintf(link_from, sizeof link_from, "/proc/self/fd/%d", fd);
    long r = RESULT(linkat(AT_FDCWD, link_from, AT_FDCWD, shared("late"), AT_SYMLINK_FOLLOW));
    return marked("late", S_ISUID, r);
}
/* The mode is behind a pointer, so the call is not available. */
PROBE(shared_setuid_openat2, "bind", "ENOSYS", "ENOSYS", "host") {
    uint64_t how[3] = {O_CREAT | O_WRONLY, 04755, 0};
    return marked("born-2", S_ISUID, call(SYS_openat2, AT_FDCWD, (long)shared("born-2"), (long)how, sizeof how));
}
/* Elsewhere such files belong to the sandbox, and packages contain them. */
PROBE(own_setuid, "plain", "ok", "ok", "host") {
    const char *path = scratch("own-setuid");
    long r = try_open_mode(path, O_CREAT | O_WRONLY, 04755);
    unlink(path);
    return r;
}
PROBE(shared_device, "bind", "EPERM", "EPERM", "host") {
    long r = RESULT(mknod(shared("node"), S_IFCHR | 0666, 0x103));
    if (in_control)
        unlink(shared("node"));
    return r;
}
PROBE(shared_capability, "bind", "EPERM|EOPNOTSUPP", "EPERM|EOPNOTSUPP", "host") {
    uint32_t caps[5] = {0x02000001, 1 << 21, 0, 0, 0};
    return call(SYS_setxattr, (long)shared("ordinary"), (long)"security.capability", (long)caps,
                sizeof caps, 0);
}
PROBE(shared_chown, "bind", "EPERM|EINVAL|EOVERFLOW", "EPERM|EINVAL|EOVERFLOW", "host") {
    return RESULT(chown(shared("ordinary"), 5, 5));
}
PROBE(shared_immutable, "bind", "EPERM|EACCES", "EPERM|EACCES", "host") {
    long flags = 0, none = 0;
    int fd = open(shared("ordinary"), O_RDONLY);
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return -errno;
    none = flags;
    flags |= FS_IMMUTABLE_FL;
    long r = RESULT(ioctl(fd, FS_IOC_SETFLAGS, &flags));
    ioctl(fd, FS_IOC_SETFLAGS, &none);
    return r;
}
PROBE(shared_foreign_file, "bind", "EACCES|EPERM|EOVERFLOW", "EACCES|EPERM|EOVERFLOW", "host") {
    return try_open(shared("of-another"), O_RDWR); /* mode 0600, of another owner on the host */
}
PROBE(shared_foreign_chmod, "bind", "EPERM|EOVERFLOW", "EPERM|EOVERFLOW", "host") {
    return RESULT(chmod(shared("of-another"), 0600));
}
PROBE(layer_immutable, "plain", "EPERM|ENOTTY|EOPNOTSUPP", "EPERM|ENOTTY|EOPNOTSUPP", "host") {
    long flags = 0, before;
    const char *path = scratch("immutable");
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return -errno;
    before = flags;
    flags |= FS_IMMUTABLE_FL | FS_APPEND_FL;
    long r = RESULT(ioctl(fd, FS_IOC_SETFLAGS, &flags));
    ioctl(fd, FS_IOC_SETFLAGS, &before);
    unlink(path);
    return r;
}
PROBE(freeze_filesystem, "plain", "EPERM", "EPERM", "ns:EOPNOTSUPP") {
    /* The root is an overlay and the control's a tmpfs. Neither can freeze, so the probe is
     * harmless. */
    if (in_control && syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0) < 0)
        return -errno;
    int fd = open(in_control ? "/tmp" : "/", O_RDONLY | O_DIRECTORY);
    return RESULT(ioctl(fd, FIFREEZE, 0));
}

/* /usr is read-only as user. As root, a change is a copy in the layer. `run` hashes the host's file
 * afterwards. */
PROBE(usr_write, "plain", "EROFS|EACCES", "ok", "none:it would change the host") {
    int fd = open("/usr/bin/true", O_WRONLY | O_APPEND);
    return fd < 0 ? -errno : RESULT(write(fd, "escaped", 7));
}
PROBE(usr_create, "plain", "EROFS|EACCES", "ok", "none:it would change the host") {
    return try_open("/usr/bin/escaped", O_CREAT | O_WRONLY);
}
PROBE(usr_unlink, "plain", "EROFS|EACCES", "ok", "none:it would change the host") {
    return RESULT(unlink("/usr/bin/factor"));
}
PROBE(usr_link_write, "plain", "EROFS|EACCES|EXDEV|EPERM", "ok|EXDEV", "none:it would change the host") {
    if (link("/usr/bin/sha1sum", "/usr/bin/escaped-link") < 0)
        return -errno;
    int fd = open("/usr/bin/escaped-link", O_WRONLY | O_TRUNC);
    return fd < 0 ? -errno : RESULT(write(fd, "escaped", 7));
}
PROBE(etc_write, "plain", "EACCES|EPERM", "ok", "none:it would change the host") {
    return try_open("/etc/passwd", O_WRONLY | O_APPEND);
}

/* Page cache: pages referenced by a pipe must be copied before they are written. */
static long through_pipe(const char *path, bool writable) {
    int fd = open(path, writable ? O_RDWR : O_RDONLY), pair[2];
    char before[8] = "", after[8] = "";
    if (fd < 0 || pipe(pair) < 0)
        return -errno;
    if (pread(fd, before, 8, 0) != 8)
        return -EIO;
    static char block[4096];
    int size = fcntl(pair[1], F_GETPIPE_SZ);
    for (int i = 0; i < size / 4096; i++) /* leaves the "can merge" flag on every slot */
        if (write(pair[1], block, sizeof block) < 0)
            return -errno;
    for (int i = 0; i < size / 4096; i++)
        if (read(pair[0], block, sizeof block) < 0)
            return -errno;
    loff_t at = 0;
    if (splice(fd, &at, pair[1], NULL, 1, 0) < 0)
        return -errno;
    if (write(pair[1], "!ESCAPE!", 8) < 0)
        return -errno;
    if (writable) { /* the control writes directly */
        loff_t to = 0;
        if (splice(pair[0], NULL, fd, &to, 8, 0) < 0)
            return -errno;
    }
    if (pread(fd, after, 8, 0) != 8)
        return -EIO;
    return memcmp(before, after, 8) == 0 ? SAFE : 0;
}
BIND(pipe_into_bind, "safe") { return through_pipe(bound(in_control ? "spare" : "canary"), in_control); }
PROBE(pipe_into_usr, "plain", "safe", "safe", "none:it would change the host") {
    return through_pipe("/usr/bin/env", false);
}
BIND(gift_into_bind, "EBADF|EACCES|EROFS|EINVAL|safe") {
    int pair[2], fd = open(bound("spare"), in_control ? O_RDWR : O_RDONLY);
    static char page[4096] __attribute__((aligned(4096))) = "gift";
    struct iovec part = {page, sizeof page};
    loff_t at = 0;
    if (fd < 0 || pipe(pair) < 0 || vmsplice(pair[1], &part, 1, 8 /* SPLICE_F_GIFT */) < 0)
        return -errno;
    return splice(pair[0], NULL, fd, &at, sizeof page, 0) < 0 ? -errno : 0;
}
BIND(copy_range_into_bind, "EBADF|EACCES|EROFS") {
    int from = open("/usr/bin/env", O_RDONLY), to = open(bound("spare"), in_control ? O_RDWR : O_RDONLY);
    if (from < 0 || to < 0)
        return -errno;
    return RESULT(copy_file_range(from, NULL, to, NULL, 16, 0));
}

/* Files of mode 0600 in a prepared /usr, owned by root and by the host's uid 1000. Root inside acts
 * for the owner of what is below its layer, so it can read what root may read there. */
PROBE(usr_file_of_root, "private", "EACCES|EPERM", "ok", "host") { return try_read("/usr/of-root"); }
PROBE(usr_file_of_1000, "private", "EACCES|EPERM", "EACCES|EPERM", "host") { return try_read("/usr/of-1000"); }
