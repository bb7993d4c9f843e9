#include "storms.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE (64 << 10)
#define FILE_PIECES 64

/* Shared by all processes of a storm. */
static uint32_t *shared;

static void spin(int number) {
    for (volatile uint64_t i = (uint64_t)number;; i++)
        ;
}

/* Each call interrupts every processor that runs one of its threads. */
static void membarrier(int number) {
    (void)number;
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    for (;;) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
    }
}

/* Waiters are requeued from one word to another and woken there. */
static void futexes(int number) {
    const struct timespec soon = {.tv_nsec = 1000000};
    for (;;) {
        if (number % 4 == 0)
            syscall(SYS_futex, &shared[0], FUTEX_WAIT, 0, &soon, NULL, 0);
        else if (number % 4 == 1)
            syscall(SYS_futex, &shared[1], FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        else
            syscall(SYS_futex, &shared[0], FUTEX_CMP_REQUEUE, 0, INT32_MAX, &shared[1], 0);
    }
}

static void forks(int number) {
    (void)number;
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
}

/* As many timers as possible, each with the shortest interval. */
static void timers(int number) {
    (void)number;
    signal(SIGUSR1, SIG_IGN);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    const struct itimerspec often = {{0, 1}, {0, 1}};
    timer_t timer;
    for (int i = 0; i < 100000 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0; i++)
        timer_settime(timer, 0, &often, NULL);
    spin(number);
}

static int open_own(int number, int flags) {
    char path[64];
    snprintf(path, sizeof path, "storm-%d", number);
    int fd = open(path, O_RDWR | O_CREAT | flags, 0600);
    return fd < 0 && flags != 0 ? open(path, O_RDWR | O_CREAT, 0600) : fd;
}

/* Rewrites the same few megabytes, because the disk must be busy, not full. */
static void write_on(int fd, int (*after)(int fd)) {
    void *piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (off_t at = 0;; at = (at + PIECE) % (FILE_PIECES * PIECE)) {
        if (pwrite(fd, piece, PIECE, at) < 0)
            _exit(errno);
        if (after)
            after(fd);
    }
}

static int sync_all(int fd) {
    fsync(fd);
    syncfs(fd);
    sync();
    return 0;
}

static void syncs(int number) {
    write_on(open_own(number, 0), sync_all);
}

static void direct(int number) {
    write_on(open_own(number, O_DIRECT), NULL);
}

static void names(int number) {
    char path[64], other[80];
    snprintf(path, sizeof path, "name-%d", number);
    snprintf(other, sizeof other, "%s-b", path);
    for (;;) {
        close(open(path, O_CREAT | O_WRONLY, 0600));
        rename(path, other);
        link(other, path);
        unlink(other);
        unlink(path);
        stat("/usr/no-such-name", &(struct stat){0});
    }
}

static const struct {
    const char *name;
    void (*run)(int number);
} storms[] = {
    {"spin", spin}, {"membarrier", membarrier}, {"futexes", futexes}, {"forks", forks},
    {"timers", timers}, {"syncs", syncs}, {"direct", direct}, {"names", names},
};

int storm_run(char **args) {
    int n = args[0] && args[1] ? atoi(args[1]) : 0;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; n > 0 && i < sizeof storms / sizeof storms[0]; i++) {
        if (strcmp(storms[i].name, args[0]) != 0)
            continue;
        int made = 0;
        for (pid_t pid = 1; made < n && pid > 0; made += pid > 0) {
            pid = fork();
            if (pid == 0) {
                storms[i].run(made);
                _exit(0);
            }
        }
        printf("ready %d\n", made);
        fflush(stdout);
        while (wait(NULL) > 0 || errno == EINTR) /* an ended process is a failure */
            return 1;
    }
    return 2;
}
