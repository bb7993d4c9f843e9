/* Resources that run out inside must not run out outside. Each amount is bounded, and the control
 * uses the same. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>

#include "probe.h"

#define MIB (1UL << 20)
#define MUCH (160 * MIB) /* the sandbox has 48 MiB */
#define BOUNDED "SIGKILL|ENOMEM|ENOSPC|ENOBUFS|EAGAIN|EMFILE|ENFILE|EPERM|SIGBUS"

PROBE(memory_anonymous, "memory", BOUNDED, BOUNDED, "host") {
    char *p = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    for (size_t at = 0; at < MUCH; at += 4096)
        p[at] = 1;
    return 0;
}
static long fill(int fd, size_t bytes) {
    static char block[1 << 16];
    memset(block, 7, sizeof block);
    for (size_t at = 0; at < bytes; at += sizeof block) {
        ssize_t n = write(fd, block, sizeof block);
        if (n != (ssize_t)sizeof block)
            return n < 0 ? -errno : -ENOSPC;
    }
    return 0;
}
PROBE(memory_memfd, "memory", BOUNDED, BOUNDED, "host") {
    long fd = call(SYS_memfd_create, (long)"x", 0);
    return fd < 0 ? fd : fill((int)fd, MUCH);
}
PROBE(memory_shm, "memory", BOUNDED, BOUNDED, "host") {
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/escape-%d", getpid());
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    unlink(path);
    return fd < 0 ? -errno : fill(fd, MUCH);
}
PROBE(memory_layer, "memory", BOUNDED, BOUNDED, "host") {
    const char *path = scratch("layer");
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    unlink(path);
    return fd < 0 ? -errno : fill(fd, MUCH);
}
PROBE(memory_pipes, "memory", BOUNDED, BOUNDED, "host") {
    size_t total = 0;
    while (total < MUCH) {
        int p[2];
        if (pipe2(p, O_NONBLOCK) < 0)
            return -errno;
        fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
        static char block[65536];
        size_t before = total;
        for (ssize_t n; (n = write(p[1], block, sizeof block)) > 0;)
            total += (size_t)n;
        if (total == before)
            return -EAGAIN;
    }
    return 0;
}
PROBE(memory_unix_sockets, "memory", BOUNDED, BOUNDED, "host") {
    struct rlimit many = {20000, 20000};
    getrlimit(RLIMIT_NOFILE, &many);
    many.rlim_cur = many.rlim_max;
    setrlimit(RLIMIT_NOFILE, &many);
    size_t total = 0;
    static char block[65536];
    while (total < MUCH) {
        int p[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) < 0)
            return -errno;
        for (ssize_t n; (n = write(p[1], block, sizeof block)) > 0;)
            total += (size_t)n;
    }
    return 0;
}
/* Over the loopback interface, without a reader. */
static int listener(int type, struct sockaddr_in *at) {
    int fd = socket(AF_INET, type, 0);
    socklen_t n = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (void *)at, sizeof *at) < 0 || (type == SOCK_STREAM && listen(fd, 512) < 0))
        return -1;
    getsockname(fd, (void *)at, &n);
    return fd;
}
PROBE(memory_tcp_buffers, "memory", BOUNDED, BOUNDED, "ns") {
    struct sockaddr_in at;
    int server = listener(SOCK_STREAM, &at);
    if (server < 0)
        return -errno;
    static char block[1 << 18];
    size_t total = 0;
    time_t end = time(NULL) + atoi(given("ESCAPE_PROBE_MS")) / (in_control ? 1000 : 2000);
    while (total < MUCH && time(NULL) < end) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (fd < 0 || (connect(fd, (void *)&at, sizeof at) < 0 && errno != EINPROGRESS))
            return -errno;
        for (int turn = 0; turn < 20; turn++) { /* the receiver's window grows as it fills */
            ssize_t n = send(fd, block, sizeof block, MSG_NOSIGNAL);
            total += n > 0 ? (size_t)n : 0;
            usleep(500);
        }
    }
    return total >= MUCH ? 0 : -EAGAIN;
}
PROBE(memory_udp_buffers, "memory", BOUNDED, BOUNDED, "ns") {
    static char block[32768];
    size_t total = 0;
    for (int i = 0; i < 1000 && total < MUCH; i++) {
        struct sockaddr_in at;
        int server = listener(SOCK_DGRAM, &at), fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        int big = 1 << 20;
        if (server < 0 || fd < 0)
            return -errno;
        setsockopt(server, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
        for (int k = 0; k < 16; k++) {
            ssize_t n = sendto(fd, block, sizeof block, 0, (void *)&at, sizeof at);
            if (n < 0)
                return -errno;
        }
        uint32_t held[9] = {0}; /* what the receiver stores, not what was sent */
        socklen_t len = sizeof held;
        getsockopt(server, SOL_SOCKET, 55 /* SO_MEMINFO */, held, &len);
        total += held[0];
    }
    return total >= MUCH ? 0 : -EAGAIN;
}
PROBE(memory_page_tables, "memory", BOUNDED, BOUNDED, "host") {
    /* Reading untouched memory allocates no page but a page table of 4 KiB per 2 MiB. */
    size_t span = MUCH / 4096 * (2 * MIB);
    volatile char *p = mmap(NULL, span, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return -errno;
    madvise((void *)p, span, 15 /* MADV_NOHUGEPAGE */);
    for (size_t at = 0; at < span; at += 2 * MIB)
        (void)p[at];
    return 0;
}
PROBE(memory_messages, "memory", BOUNDED, BOUNDED, "ns") {
    struct {
        long type;
        char text[8000];
    } msg = {1, ""};
    for (size_t total = 0; total < MUCH;) {
        int q = msgget(IPC_PRIVATE, 0600);
        if (q < 0)
            return -errno;
        while (msgsnd(q, &msg, sizeof msg.text, IPC_NOWAIT) == 0)
            total += sizeof msg.text;
        if (errno != EAGAIN)
            return -errno;
    }
    return 0;
}
PROBE(memory_inodes, "memory", BOUNDED, BOUNDED, "ns") {
    char dir[512], path[600];
    /* a tmpfs in both */
    snprintf(dir, sizeof dir, "%s", in_control ? "/tmp/memory-inodes" : scratch("inodes"));
    if (mkdir(dir, 0755) < 0)
        return -errno;
    for (int i = 0; i < 60000; i++) { /* an inode and its entry take more than a kilobyte */
        snprintf(path, sizeof path, "%s/%d", dir, i);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            return -errno;
        close(fd);
    }
    return 0;
}

/* Metadata of files in memory: an ACL may have 64 KiB, while the file itself takes a kilobyte. */
static const char *small_file(int number) {
    static char path[64];
    snprintf(path, sizeof path, "%s/hung-%d-%d", in_control ? "/tmp" : "/dev/shm", (int)getpid(), number);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    return path;
}
PROBE(memory_acls, "memory", BOUNDED "|E2BIG|EOPNOTSUPP", BOUNDED "|E2BIG|EOPNOTSUPP", "ns") {
    enum { USERS = 8186 };
    static struct {
        uint32_t version;
        struct {
            uint16_t tag, perm;
            uint32_t id;
        } entry[USERS + 4];
    } acl = {.version = 2};
    for (int i = 0; i < USERS + 4; i++) {
        uint16_t tag = i == 0 ? 1 : i <= USERS ? 2 : i == USERS + 1 ? 4 : i == USERS + 2 ? 16 : 32;
        acl.entry[i].tag = tag, acl.entry[i].perm = 6, acl.entry[i].id = tag == 2 ? 1000 : ~0u;
    }
    for (size_t total = 0, i = 0; total < MUCH; total += sizeof acl, i++)
        if (setxattr(small_file((int)i), "system.posix_acl_access", &acl, sizeof acl, 0) < 0)
            return -errno;
    return 0;
}
/* Sets many attributes on one file: `security.` if the kernel allows it, else `user.`. */
PROBE(memory_xattrs, "memory", BOUNDED "|EOPNOTSUPP", BOUNDED "|EOPNOTSUPP", "ns") {
    static char value[1000], name[64];
    const char *kind = setxattr(small_file(0), "security.escape", value, sizeof value, 0) == 0 ? "security" : "user";
    for (int i = 0; i < (int)(MUCH / sizeof value); i++) {
        snprintf(name, sizeof name, "%s.escape-%d", kind, i);
        if (setxattr(small_file(i / 100), name, value, sizeof value, 0) < 0)
            return -errno;
    }
    return 0;
}

/* A tenth of a CPU: 64 threads spin for 1.5 seconds, or until each has run once after that. */
static void *spin(void *end) {
    struct timespec now;
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec + now.tv_nsec / 1e9 < *(double *)end);
    return NULL;
}
static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
static long spin_all(void) {
    double begin = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID), end = begin + 1.5;
    pthread_t threads[64];
    for (int i = 0; i < 64; i++)
        pthread_create(&threads[i], NULL, spin, &end);
    for (int i = 0; i < 64; i++)
        pthread_join(threads[i], NULL);
    double much = in_control ? 0.5 : 0.2 + (seconds(CLOCK_MONOTONIC) - begin) / 5;
    return seconds(CLOCK_PROCESS_CPUTIME_ID) - used > much ? 0 : SAFE;
}
PROBE(cpu_threads, "cpu", "safe", "safe", "host") {
    long r = spin_all();
    /* retry, because neighbours may be busy */
    for (int again = 0; again < 2 && in_control && r == SAFE; again++)
        r = spin_all();
    return r;
}

/* Disk: 16 MiB and at most 65536 inodes, on a disk image and in memory. */
#define FULL "ENOSPC|EDQUOT"
#define DISK (40 * MIB)
static int fresh(int flags) {
    const char *path = scratch("disk");
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | flags, 0600);
    unlink(path);
    return fd;
}
/* The control's files are on its disk or, if many, in a tmpfs, which is faster. */
static const char *many(const char *name) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/%s", name);
    return in_control ? path : scratch(name);
}
#define DISK_PROBE(name, good) PROBE(name, "disk", good, good, "host")
#define MANY_PROBE(name, good) PROBE(name, "disk", good, good, "ns")
DISK_PROBE(disk_write, FULL) {
    int fd = fresh(0);
    return fd < 0 ? -errno : fill(fd, DISK);
}
DISK_PROBE(disk_fallocate, FULL) {
    int fd = fresh(0);
    return fallocate(fd, 0, 0, DISK) < 0 ? -errno : 0;
}
DISK_PROBE(disk_keep_size, FULL) {
    int fd = fresh(0);
    return fallocate(fd, 1 /* KEEP_SIZE */, 0, DISK) < 0 ? -errno : 0;
}
DISK_PROBE(disk_sparse, FULL) {
    int fd = fresh(0);
    if (ftruncate(fd, 1L << 30) < 0)
        return -errno;
    static char block[4096] = {1};
    for (size_t i = 0; i < DISK / 4096; i++)
        if (pwrite(fd, block, sizeof block, (off_t)(i * 100000)) < 0)
            return -errno;
    return 0;
}
DISK_PROBE(disk_mmap, "SIGBUS") {
    int fd = fresh(0);
    if (ftruncate(fd, DISK) < 0)
        return -errno;
    char *p = mmap(NULL, DISK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (size_t at = 0; at < DISK; at += 4096)
        p[at] = 1;
    return msync(p, DISK, MS_SYNC) < 0 ? -errno : 0;
}
DISK_PROBE(disk_deleted_files, FULL) {
    for (int i = 0; i < 10; i++) {
        int fd = fresh(0);
        long r = fd < 0 ? -errno : fill(fd, 4 * MIB);
        if (r < 0)
            return r;
    }
    return 0;
}
DISK_PROBE(disk_direct, FULL "|EINVAL") {
    int fd = fresh(O_DIRECT);
    if (fd < 0)
        return -errno;
    char *block = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < DISK; at += MIB) {
        ssize_t n = write(fd, block, MIB);
        if (n != (ssize_t)MIB)
            return n < 0 ? -errno : -ENOSPC;
    }
    return 0;
}
DISK_PROBE(disk_tmpfile, FULL) {
    int fd = open(given("ESCAPE_SCRATCH")[0] ? given("ESCAPE_SCRATCH") : "/tmp", O_TMPFILE | O_RDWR, 0600);
    return fd < 0 ? -errno : fill(fd, DISK);
}
MANY_PROBE(disk_inodes, FULL) {
    char dir[512], path[600];
    snprintf(dir, sizeof dir, "%s", many("inodes"));
    mkdir(dir, 0755);
    long r = 0;
    int i = 0;
    for (; r == 0 && i < 70000; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        r = mknod(path, S_IFREG | 0600, 0) < 0 ? -errno : 0;
    }
    while (i-- > 0) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        unlink(path);
    }
    return r;
}
MANY_PROBE(disk_xattrs, FULL "|EOPNOTSUPP|E2BIG|EPERM") {
    char dir[512], path[600];
    static char value[1000]; /* one block each */
    memset(value, 7, sizeof value);
    snprintf(dir, sizeof dir, "%s", many("xattrs"));
    mkdir(dir, 0755);
    long r = 0;
    int i = 0;
    for (; r == 0 && i < 10500; i++) { /* 40 MB */
        snprintf(path, sizeof path, "%s/%d", dir, i);
        value[0] = (char)i, value[1] = (char)(i >> 8); /* equal values may be shared */
        if (mknod(path, S_IFREG | 0600, 0) < 0 || setxattr(path, "user.x", value, sizeof value, 0) < 0)
            r = -errno;
    }
    while (i-- > 0) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        unlink(path);
    }
    return r;
}
MANY_PROBE(disk_directories, FULL "|EMLINK") {
    char path[600];
    char dir[512];
    snprintf(dir, sizeof dir, "%s", many("dirs"));
    mkdir(dir, 0755);
    long r = 0;
    int i = 0;
    for (; r == 0 && i < 15000; i++) { /* one block each */
        snprintf(path, sizeof path, "%s/%d", dir, i);
        r = mkdir(path, 0755) < 0 ? -errno : 0;
    }
    while (i-- > 0) {
        snprintf(path, sizeof path, "%s/%d", dir, i);
        rmdir(path);
    }
    return r;
}
