#include "acts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storms.h"

/* Reports that everything is prepared, then waits for the end of standard input. */
static int ready(const char *text) {
    char byte;
    printf("ready %s\n", text);
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

/* Returns 1 if the exec gave more privileges than the caller had. */
static int privileged(char **args) {
    (void)args;
    uint32_t head[2] = {0x20080522, 0}, data[6] = {0};
    syscall(SYS_capget, head, data);
    unsigned beyond = (data[1] & ~0x4fbu) | data[4];
    return (geteuid() != getuid() || getegid() != getgid() || beyond != 0) ? 1 : 0;
}

static int hold(char **args) {
    (void)args;
    shmget(0x42455243, 4096, IPC_CREAT | 0666);
    umask(0);
    mq_open("/berm-cross", O_CREAT | O_RDWR, 0666, NULL);
    close(open("/dev/shm/berm-cross", O_CREAT | O_WRONLY, 0666));
    close(open("/tmp/berm-cross", O_CREAT | O_WRONLY, 0666));
    close(open("/workspace/berm-cross", O_CREAT | O_WRONLY, 0666));
    return ready("");
}

/* Listens on every address at the given port. */
static int serve(char **args) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[0]))};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (void *)&at, sizeof at) < 0 || listen(fd, 8) < 0)
        return 1;
    return ready("");
}

/* Connects to 127.0.0.1 at the given port. Returns the errno as exit code. */
static int reach(char **args) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(args[0])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return connect(fd, (void *)&at, sizeof at) < 0 ? errno : 0;
}

static int take_inotify(char **args) {
    (void)args;
    int n = 0;
    while (n < 4000 && inotify_init1(0) >= 0)
        n++;
    char text[32];
    snprintf(text, sizeof text, "%d", n);
    return ready(text);
}

static int take_watches(char **args) {
    int fd = inotify_init1(0), n = 0, max = atoi(args[0]);
    char dir[64], path[80];
    snprintf(dir, sizeof dir, "%s", args[1]);
    for (; n < max; n++) {
        snprintf(path, sizeof path, "%s/w%d", dir, n);
        if (mkdir(path, 0755) < 0 || inotify_add_watch(fd, path, IN_CREATE) < 0)
            break;
    }
    char text[32];
    snprintf(text, sizeof text, "%d", n);
    return ready(text);
}

static int take_aio(char **args) {
    (void)args;
    long total = 0;
    for (unsigned step = 16384; step > 0;) {
        unsigned long context = 0;
        if (syscall(SYS_io_setup, step, &context) == 0)
            total += step;
        else
            step /= 2;
    }
    char text[32];
    snprintf(text, sizeof text, "%ld", total);
    return ready(text);
}

/* Watches a directory for opens by others. Prints the result when standard input ends. */
static int watch(char **args) {
    int fd = inotify_init1(IN_NONBLOCK);
    if (fd < 0 || inotify_add_watch(fd, args[0], IN_OPEN | IN_ACCESS) < 0)
        return errno;
    ready("");
    char events[4096] = "";
    ssize_t n = read(fd, events, sizeof events);
    printf("saw %d\n", n > 0);
    return 0;
}

static int lock(char **args) {
    int fd = open(args[0], O_RDONLY);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno;
    return ready("");
}

/* Kills every process it can. Exit code 0 means that it survived and PID 1 still reaps. */
static int kill_all(char **args) {
    (void)args;
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    kill(-1, SIGKILL);
    int status;
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) ? 0 : 1;
}

/* Processes that only SIGKILL ends; some are stopped, and one sleeps in the kernel. */
static int stubborn(char **args) {
    (void)args;
    for (int s = 1; s < 32; s++)
        signal(s, SIG_IGN);
    mkfifo("/tmp/fifo", 0600);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            setsid();
            if (i == 0)
                open("/tmp/fifo", O_RDONLY);
            if (i == 1 && vfork() == 0)
                for (;;)
                    syscall(SYS_pause);
            for (;;)
                pause();
        }
        if (i % 3 == 0)
            kill(pid, SIGSTOP);
    }
    printf("ready\n");
    fflush(stdout);
    for (;;)
        pause();
    return 0;
}

/* Creates a directory tree of the given depth, and hard links. */
static int deep(char **args) {
    int depth = atoi(args[0]), at = 0;
    if (chdir("/workspace") < 0)
        return 1;
    for (; at < depth; at++)
        if (mkdir("d", 0755) < 0 || chdir("d") < 0)
            break;
    close(open("f", O_CREAT | O_WRONLY, 0600));
    char name[32];
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "l%d", i);
        if (link("f", name) < 0)
            break;
    }
    snprintf(name, sizeof name, "%d", at);
    return ready(name);
}

/* Enters a directory, waits, then goes up. Prints whether `mark` is visible from above. */
static int climb(char **args) {
    if (chdir(args[0]) < 0)
        return errno;
    ready("");
    char path[600] = "";
    for (int i = 0; i < 8; i++) {
        strcat(path, "../");
        char mark[800];
        snprintf(mark, sizeof mark, "%s%s", path, args[1]);
        if (access(mark, F_OK) == 0) {
            printf("out\n");
            return 0;
        }
    }
    printf("in\n");
    return 0;
}

/* `leave` creates what a tenant may leave behind; `find` looks for it as the next tenant. */
static int leave(char **args) {
    (void)args;
    close(open("/tmp/left", O_CREAT | O_WRONLY, 0666));
    close(open("/dev/shm/left", O_CREAT | O_WRONLY, 0666));
    shmget(0x42455243, 4096, IPC_CREAT | 0666);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(4711),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (void *)&at, sizeof at) < 0 || listen(server, 8) < 0)
        return 1;
    if (connect(client, (void *)&at, sizeof at) < 0)
        return 2;
    close(accept(server, NULL, NULL)); /* TIME_WAIT */
    if (fork() == 0) {
        setsid();
        for (;;)
            pause();
    }
    return 0;
}

static bool has_lines(const char *path, int more_than) {
    FILE *f = fopen(path, "r");
    int n = 0;
    for (char line[512]; f != NULL && fgets(line, sizeof line, f) != NULL;)
        n++;
    return n > more_than;
}

static int find_left(char **args) {
    char name[65] = "";
    gethostname(name, 64);
    printf("%s%s%s%s%s\n", access("/tmp/left", F_OK) == 0 ? "tmp " : "",
           access("/dev/shm/left", F_OK) == 0 ? "shm " : "",
           shmget(0x42455243, 0, 0) >= 0 ? "sysv " : "", has_lines("/proc/net/tcp", 1) ? "tcp " : "",
           args[0] != NULL && strcmp(name, args[0]) != 0 ? "hostname " : "");
    return 0;
}

static int show_map(char **args) {
    (void)args;
    char map[256] = "";
    int fd = open("/proc/self/uid_map", O_RDONLY);
    if (read(fd, map, sizeof map - 1) < 0)
        return 1;
    unsigned inner, outer, count;
    sscanf(map, "%u %u %u", &inner, &outer, &count);
    char text[64];
    snprintf(text, sizeof text, "%u %u", outer, count);
    return ready(text);
}

static const struct {
    const char *name;
    int (*run)(char **args);
} acts[] = {
    {"privileged", privileged}, {"hold", hold}, {"serve", serve}, {"reach", reach},
    {"take-inotify", take_inotify}, {"take-watches", take_watches}, {"take-aio", take_aio},
    {"watch", watch}, {"lock", lock}, {"kill-all", kill_all}, {"stubborn", stubborn}, {"deep", deep},
    {"climb", climb}, {"leave", leave}, {"find-left", find_left}, {"show-map", show_map},
    {"storm", storm_run},
};

int act_run(const char *name, char **args) {
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        if (strcmp(acts[i].name, name) == 0)
            return acts[i].run(args);
    return 2;
}
