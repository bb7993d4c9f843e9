#include "spawn/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "spawn/sys.h"

/* Runs mke2fs in the host's mount namespace, on a new, empty image. */
static int disk_run_mke2fs(const struct spawn *s, int image, uint64_t inodes) {
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        char path[40], count[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", image);
        snprintf(count, sizeof count, "%" PRIu64, inodes);
        fcntl(image, F_SETFD, 0);
        if (setns(s->host_ns, CLONE_NEWNS) < 0 || setresuid(0, 0, 0) < 0)
            _exit(1); /* unless the real uid is 0, mke2fs would run as if set-uid */
        char *argv[] = {"mke2fs",
                        "-q",
                        "-F",
                        "-t",
                        "ext4",
                        "-O",
                        "^has_journal,^resize_inode",
                        "-m",
                        "0",
                        "-E",
                        "lazy_itable_init=1,nodiscard",
                        "-N",
                        count,
                        path,
                        NULL};
        char *env[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
        if (inodes == 0) { /* omit -N, so that mke2fs chooses the number of inodes */
            argv[11] = path;
            argv[12] = NULL;
        }
        execve("/usr/sbin/mke2fs", argv, env);
        execve("/sbin/mke2fs", argv, env);
        _exit(127);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOTSUP : -EIO;
}

/* Opens the template of an empty file system of this size. Creates it first if it is absent. */
static int disk_open_template(const struct spawn *s, uint64_t bytes, uint64_t inodes) {
    char name[64], temp[80];
    snprintf(name, sizeof name, "ext4-%" PRIu64 "-%" PRIu64, bytes, inodes);
    int found = fd_open_beneath(s->images, name, O_RDONLY, 0);
    if (found != -ENOENT)
        return found;
    snprintf(temp, sizeof temp, ".%s.%d", name, (int)getpid());
    AUTO_CLOSE int fd = fd_open_beneath(s->images, temp, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return fd;
    int r = ftruncate(fd, (off_t)bytes) < 0 ? -errno : disk_run_mke2fs(s, fd, inodes);
    if (r == 0 && renameat(s->images, temp, s->images, name) < 0)
        r = -errno;
    if (r < 0) {
        unlinkat(s->images, temp, 0);
        return r;
    }
    return TAKE_FD(fd);
}

static int disk_copy_sparse(int from, int to, off_t bytes) {
    if (ftruncate(to, bytes) < 0)
        return -errno;
    off_t at = 0;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, at, SEEK_HOLE);
        off_t in = at, out = at;
        while (in < end) {
            ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - in), 0);
            if (n <= 0)
                return n < 0 ? -errno : -EIO;
        }
        at = end;
    }
    return errno == ENXIO ? 0 : -errno;
}

static int disk_make_image(const struct spawn *s, int dir, uint64_t bytes, uint64_t inodes) {
    AUTO_CLOSE int from = disk_open_template(s, bytes, inodes);
    if (from < 0)
        return from;
    AUTO_CLOSE int to = fd_open_beneath(dir, DISK_IMAGE ".new", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (to < 0)
        return to;
    int r = disk_copy_sparse(from, to, (off_t)bytes);
    if (r == 0 && renameat(dir, DISK_IMAGE ".new", dir, DISK_IMAGE) < 0)
        r = -errno;
    return r < 0 ? r : TAKE_FD(to);
}

/* Attaches the image to a loop device. Retries when another process took the free number first. */
static int disk_open_loop(const struct spawn *s, int image) {
    AUTO_CLOSE int control = openat(s->dev, "loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return -ENOTSUP;
    for (int turn = 0; turn < 32; turn++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return -errno;
        char name[24];
        snprintf(name, sizeof name, "loop%d", number);
        AUTO_CLOSE int device = openat(s->dev, name, O_RDWR | O_CLOEXEC);
        if (device < 0)
            return -errno;
        struct loop_config config = {.fd = (uint32_t)image, .info.lo_flags = LO_FLAGS_AUTOCLEAR};
        if (ioctl(device, LOOP_CONFIGURE, &config) == 0)
            return TAKE_FD(device);
        if (errno != EBUSY)
            return -errno;
    }
    return -EBUSY;
}

int disk_mount(struct spawn *s, int dir, uint64_t bytes, uint64_t inodes) {
    if (!(s->features & SPAWN_HAS_DISK_IMAGE))
        return -ENOTSUP;
    AUTO_CLOSE int image = fd_open_beneath(dir, DISK_IMAGE, O_RDWR, 0);
    if (image == -ENOENT)
        image = disk_make_image(s, dir, bytes, inodes);
    if (image < 0)
        return image;
    AUTO_CLOSE int device = disk_open_loop(s, image);
    if (device < 0)
        return device;
    char source[40];
    snprintf(source, sizeof source, "/proc/self/fd/%d", device);
    AUTO_CLOSE int fs = sys_fsopen("ext4");
    int r = fs;
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "source", source, 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FLAG, "noload", NULL, 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}
