/* LAYERED mount: /over is a host directory below a layer of the sandbox. Every operation may be
 * tried, and its effect stays in the sandbox; `run` compares the host's directory before and
 * after. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "probe.h"

static const char *over(const char *name) {
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", in_control ? given("ESCAPE_OVER") : "/over", name);
    return path;
}
/* The control changes a prepared file, to show that the attempt works. */
static const char *target(const char *name) {
    return in_control ? scratch(name) : over(name);
}
#define RESULT(x) ((x) < 0 ? -errno : 0)
#define OVER(name, good) PROBE(name, "over", good, good, "host")

OVER(over_device, "EACCES") { return try_open(over("device"), O_RDWR); }
/* A process outside reads from it. */
OVER(over_fifo, "ENXIO|EACCES") { return try_open(over("fifo"), O_WRONLY | O_NONBLOCK); }
OVER(over_socket, "ECONNREFUSED|EACCES") {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (chdir(over(".")) < 0)
        return -errno;
    strcpy(at.sun_path, "socket");
    return RESULT(connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof at));
}
OVER(over_symlink_out, "ENOENT") { return try_read(over("to-outside")); }
OVER(over_symlink_relative, "ENOENT") { return try_read(over("to-outside-relative")); }
OVER(over_symlink_magic, "ENOENT|EACCES|ELOOP") { return try_read(over("to-outside-magic")); }
OVER(over_private, "EACCES") { return try_read(over("of-another")); }
OVER(over_foreign_write, "EACCES|EPERM|EOVERFLOW") { return try_open(over("for-all"), O_RDWR); }
OVER(over_foreign_chmod, "EPERM|EOVERFLOW") { return RESULT(chmod(over("for-all"), 0666)); }
OVER(over_foreign_rename, "EPERM|EOVERFLOW") {
    char from[600];
    snprintf(from, sizeof from, "%s", over("for-all"));
    return RESULT(rename(from, over("for-all"))) == 0 && in_control ? 0 : RESULT(rename(from, over("mine")));
}
OVER(over_hardlink_out, "EXDEV|EPERM") {
    char from[600];
    snprintf(from, sizeof from, "%s", over("spare"));
    const char *to = in_control ? over("../over-link") : "/tmp/over-link";
    long r = RESULT(link(from, to));
    unlink(to);
    return r;
}
/* Attributes that overlayfs itself uses. */
OVER(over_redirect, "EPERM|EACCES|EOPNOTSUPP") {
    const char *path = target("ordinary");
    close(open(path, O_CREAT | O_RDWR, 0644));
    return RESULT(setxattr(path, "trusted.overlay.redirect", "/", 1, 0));
}
OVER(over_whiteout, "EPERM") {
    long r = RESULT(mknod(target("hole"), S_IFCHR | 0666, 0));
    return in_control && unlink(target("hole")) < 0 ? -errno : r;
}
/* Whether exec honours the setuid bits and capabilities of an existing file. */
static long gains_by(const char *name) {
    pid_t child = fork();
    int status;
    if (child == 0) {
        if (in_control && (setgid(1000) < 0 || setuid(1000) < 0))
            _exit(9);
        execl(over(name), name, "act", "privileged", (char *)NULL);
        _exit(9);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1 ? 0 : SAFE;
}
PROBE(over_setuid, "over", "safe", "safe", "host") { return gains_by("setuid"); }

/* Every way to write, on the caller's own files. They work inside, and `run` checks that the host's
 * files do not change. The control uses a writable directory. */
static const char *own(const char *name) {
    static char bytes[10000] = "spare";
    int fd = in_control ? open(scratch(name), O_CREAT | O_RDWR, 0644) : -1;
    if (fd >= 0 && write(fd, bytes, sizeof bytes) != sizeof bytes)
        abort();
    close(fd);
    return target(name);
}
OVER(over_write, "ok") {
    int fd = open(own("spare"), O_RDWR);
    return fd < 0 ? -errno : pwrite(fd, "escaped", 7, 0) != 7 ? -errno : RESULT(fsync(fd));
}
OVER(over_mapped, "ok") {
    int fd = open(own("mapped"), O_RDWR);
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    memcpy(p, "escaped", 7);
    return RESULT(msync(p, 4096, MS_SYNC));
}
/* Mapped before the copy-up: the mapping refers to the host's pages and stays read-only. */
OVER(over_mapped_before, "EACCES") {
    const char *path = own("canary");
    int before = open(path, in_control ? O_RDWR : O_RDONLY), after = open(path, O_RDWR);
    char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, before, 0);
    if (p == MAP_FAILED || pwrite(after, "escaped", 7, 0) != 7)
        return -errno;
    return RESULT(mprotect(p, 4096, PROT_READ | PROT_WRITE));
}
OVER(over_truncate, "ok") { return try_open(own("spare"), O_WRONLY | O_TRUNC); }
/* Its other name is outside. */
OVER(over_linked, "ok") { return try_open(own("twice"), O_WRONLY | O_TRUNC); }
/* And back, because in a sticky directory some hosts let nobody follow another's link. */
OVER(over_modes, "ok") {
    if (chmod(own("modes"), 0) < 0)
        return -errno;
    return !in_control && (chmod(over("."), 01777) < 0 || chmod(over("."), 0755) < 0) ? -errno : 0;
}
OVER(over_remove, "ok") { return RESULT(unlink(own("doomed"))); }
