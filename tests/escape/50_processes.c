/* Processes, descriptors and leftovers: PID 1 survives, and nothing is inherited. */
#include <dirent.h>
#include <fcntl.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "probe.h"

/* `run` has a host directory open as descriptor 9 when it starts the sandbox. */
PROBE(descriptors, "plain", "safe", "safe", "host") {
    for (int fd = 3; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return fd;
    return SAFE;
}
PROBE(descriptor_is_directory, "plain", "safe", "safe", "host") {
    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;
        if (fstat(fd, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode)))
            return fd;
    }
    return SAFE;
}
PROBE(cwd_outside, "plain", "safe", "safe", "ns") {
    char cwd[4096];
    if (in_control) { /* in a directory that the new root does not contain */
        const char *dir = scratch("root");
        mkdir(dir, 0755);
        if (chroot(dir) < 0)
            return -errno;
    }
    long r = syscall(SYS_getcwd, cwd, sizeof cwd);
    return r > 0 && cwd[0] == '/' ? SAFE : 0;
}
PROBE(inherited_environment, "plain", "safe", "safe", "host") {
    return getenv("ESCAPE_SECRET") != NULL ? 0 : SAFE;
}
PROBE(controlling_terminal, "plain", "ENXIO", "ENXIO", "none:the suite runs without a terminal") {
    return try_open("/dev/tty", O_RDWR);
}

/* Signals to PID 1; in the control to a waiting child. "ok" means that the process ended. */
static pid_t victim(void) {
    if (!in_control)
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    return pid;
}
static long fate(pid_t pid, long sent) {
    if (sent < 0)
        return sent;
    int status;
    if (in_control)
        return waitpid(pid, &status, WUNTRACED) == pid ? 0 : SAFE;
    usleep(20000);
    return SAFE; /* if PID 1 had ended or stopped reaping, this line would not run */
}
#define SIGNAL(name, expression)                                        \
    PROBE(signal_##name, "plain", "EPERM|ESRCH", "safe|EPERM", "host") { \
        pid_t pid = victim();                                           \
        return fate(pid, expression);                                   \
    }
SIGNAL(kill, call(SYS_kill, pid, SIGKILL))
SIGNAL(stop, call(SYS_kill, pid, SIGSTOP))
SIGNAL(term, call(SYS_kill, pid, SIGTERM))
SIGNAL(segv, call(SYS_kill, pid, SIGSEGV))
SIGNAL(tgkill, call(SYS_tgkill, pid, pid, SIGKILL))
SIGNAL(tkill, call(SYS_tkill, pid, SIGABRT))
SIGNAL(pidfd, call(SYS_pidfd_send_signal, call(SYS_pidfd_open, pid, 0), SIGKILL, 0, 0))
PROBE(signal_forged, "plain", "EPERM|ESRCH", "EPERM|safe", "none:only a sender may name itself") {
    siginfo_t info = {.si_signo = SIGCHLD, .si_code = 0};
    long r = call(SYS_rt_sigqueueinfo, 1, SIGCHLD, (long)&info);
    return r == 0 ? SAFE : r;
}

/* With a limit of 32 processes. */
static long fork_many(int max, int (*make)(void)) {
    for (int i = 0; i < max; i++)
        if (make() < 0)
            return -errno;
    return 0;
}
static int by_fork(void) {
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        pause();
        _exit(0);
    }
    return pid;
}
static int by_double_fork(void) {
    int pair[2], error = 0;
    if (pipe(pair) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        pid_t inner = fork();
        if (inner == 0) {
            setsid();
            pause();
        }
        error = inner < 0 ? errno : 0;
        if (write(pair[1], &error, sizeof error) < 0)
            _exit(1);
        _exit(0);
    }
    if (pid < 0)
        return -1;
    waitpid(pid, NULL, 0);
    if (read(pair[0], &error, sizeof error) < 0)
        error = EIO;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return error ? -1 : 0;
}
static int idle(void *arg) {
    for (;;)
        pause();
    return arg != NULL;
}
static int by_thread(void) {
    char *stack = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return clone(idle, stack + 16384, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                          CLONE_SYSVSEM, NULL);
}
PROBE(fork_bomb, "pids", "EAGAIN", "EAGAIN", "ns") { return fork_many(200, by_fork); }
PROBE(fork_bomb_double, "pids", "EAGAIN", "EAGAIN", "ns") { return fork_many(200, by_double_fork); }
PROBE(fork_bomb_threads, "pids", "EAGAIN", "EAGAIN", "ns") { return fork_many(200, by_thread); }
PROBE(fork_bomb_limit, "pids", "EAGAIN", "EAGAIN", "ns") {
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_NPROC, &all);
    return fork_many(200, by_fork);
}
/* Without a limit in the request, the whole sandbox is still bounded by 8192 processes, and not by
 * 8192 for each of the 65536 ids that root inside can use. Three ids start 3000 threads each, and
 * end immediately. */
PROBE(processes_by_other_ids, "plain", "-", "EAGAIN", "host") {
    enum { IDS = 3, EACH = 3000 };
    int pair[2], error = 0;
    if (pipe(pair) < 0)
        return -errno;
    for (uint32_t uid = 2001; error == 0 && uid < 2001 + IDS; uid++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
            if (in_control)
                setrlimit(RLIMIT_NPROC, &all);
            if (syscall(SYS_setresuid, uid, uid, uid) < 0 || fork_many(EACH, by_thread) < 0)
                error = errno;
            if (write(pair[1], &error, sizeof error) < 0)
                _exit(1);
            pause();
        }
        if (read(pair[0], &error, sizeof error) < 0)
            return -errno;
    }
    return -error;
}

/* A crash leaves nothing on the host: no file, and no work for a core handler behind a pipe. */
PROBE(core_dump, "plain", "safe", "safe", "host") {
    char dir[512];
    snprintf(dir, sizeof dir, "%s", scratch("core"));
    if (mkdir(dir, 0755) < 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
        if (chdir(dir) < 0)
            _exit(1);
        setrlimit(RLIMIT_CORE, &all);
        raise(SIGSEGV);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    DIR *d = opendir(dir);
    int n = 0;
    while (d != NULL && readdir(d) != NULL)
        n++;
    return WCOREDUMP(status) || n > 2 ? 0 : SAFE;
}
PROBE(core_limit, "plain", "safe", "safe", "host") {
    struct rlimit now;
    getrlimit(RLIMIT_CORE, &now);
    return now.rlim_max == 1 ? SAFE : 0; /* 1 stops handlers behind a pipe; 0 does not */
}

/* With 0 the kernel starts a handler behind a pipe, so the limit stays 1 whatever a program
 * sets. */
static long lower_core_limit(bool by_prlimit) {
    struct rlimit zero = {0, 0}, now;
    long r = by_prlimit ? call(SYS_prlimit64, 0, RLIMIT_CORE, (long)&zero, 0) : call(SYS_setrlimit, RLIMIT_CORE, (long)&zero);
    getrlimit(RLIMIT_CORE, &now);
    return r < 0 ? r : now.rlim_cur == 1 && now.rlim_max == 1 ? SAFE : 0;
}
PROBE(core_limit_lowered, "plain", "safe", "safe", "user") { return lower_core_limit(false); }
PROBE(core_limit_lowered_by_prlimit, "plain", "safe", "safe", "user") { return lower_core_limit(true); }
/* The low half of the pointer is 0, so a filter that compares 32 bits would take it for NULL. */
PROBE(core_limit_lowered_from_4_gib, "plain", "safe", "safe", "user") {
    struct rlimit *zero = mmap((void *)(1L << 32), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zero == MAP_FAILED)
        return -errno;
    struct rlimit now;
    long r = call(SYS_prlimit64, 0, RLIMIT_CORE, (long)zero, 0);
    getrlimit(RLIMIT_CORE, &now);
    return r < 0 ? r : now.rlim_cur == 1 ? SAFE : 0;
}

/* `run` has created these on the host under names that the probes know. */
PROBE(host_shm, "plain", "ENOENT", "ENOENT", "host") {
    int id = shmget((key_t)atoi(given("ESCAPE_KEY")), 0, 0);
    return id < 0 ? -errno : 0;
}
PROBE(host_message_queue, "plain", "ENOENT", "ENOENT", "host") {
    char name[80];
    snprintf(name, sizeof name, "/%s", given("ESCAPE_WORD"));
    mqd_t q = mq_open(name, O_RDONLY);
    return q < 0 ? -errno : 0;
}
PROBE(host_posix_shm, "plain", "ENOENT", "ENOENT", "host") {
    char path[100];
    snprintf(path, sizeof path, "/dev/shm/%s", given("ESCAPE_WORD"));
    return try_open(path, O_RDONLY);
}
PROBE(host_tmp, "plain", "ENOENT", "ENOENT", "host") { return try_open(given("ESCAPE_CANARY"), O_RDONLY); }
PROBE(host_tmp_by_root, "plain", "ENOENT", "ENOENT", "host") {
    char path[600];
    snprintf(path, sizeof path, "/proc/self/root/%s", given("ESCAPE_CANARY"));
    return try_open(path, O_RDONLY);
}
#define HOME(name, path, place) \
    PROBE(data_##name, "plain", "safe|ENOENT|EACCES|EPERM", "safe|ENOENT|EACCES|EPERM", place) { return list(path); }
static long list(const char *path) {
    DIR *d = opendir(path);
    if (d == NULL)
        return -errno;
    int n = 0;
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n > 2 ? 0 : SAFE;
}
HOME(root, "/root", "host")
HOME(opt, "/opt", "none:may be empty on the host")
HOME(srv, "/srv", "none:may be empty on the host")
HOME(log, "/var/log/journal", "none:may be absent on the host")
HOME(run_user, "/run/user", "none:may be absent on the host")
HOME(boot, "/boot", "none:may be empty on the host")
HOME(spool_cron, "/var/spool/cron", "none:may be absent on the host")
HOME(ssh, "/etc/ssh", "none:may be absent on the host")
HOME(private_keys, "/etc/ssl/private", "none:may be empty on the host")
PROBE(data_shadow, "plain", "EACCES|ENOENT|safe", "safe|ENOENT", "host") {
    /* Root inside may read the generated file, which contains no hash. */
    char line[256];
    FILE *f = fopen("/etc/shadow", "r");
    if (f == NULL)
        return -errno;
    if (in_control)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (strchr(line, '$') != NULL)
            return 0;
    return SAFE;
}

/* Another sandbox holds these meanwhile (act `hold`). In the control it is a neighbour process. */
#define ALIEN "ENOENT|ECONNREFUSED|EPERM|ENETUNREACH"
#define CROSS_KEY 0x42455243
PROBE(cross_shm, "cross", ALIEN, ALIEN, "ns") { return shmget(CROSS_KEY, 0, 0) < 0 ? -errno : 0; }
PROBE(cross_message_queue, "cross", ALIEN, ALIEN, "ns") {
    return mq_open("/berm-cross", O_RDONLY) < 0 ? -errno : 0;
}
PROBE(cross_posix_shm, "cross", ALIEN, ALIEN, "ns") { return try_open("/dev/shm/berm-cross", O_RDONLY); }
PROBE(cross_tmp, "cross", ALIEN, ALIEN, "ns") { return try_open("/tmp/berm-cross", O_RDONLY); }
PROBE(cross_workspace, "cross", ALIEN, ALIEN, "none:the control has no workspace") {
    return try_open("/workspace/berm-cross", O_RDONLY);
}
PROBE(cross_process, "cross", "safe", "safe", "ns") {
    DIR *d = opendir("/proc");
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && file_has(path, "hold"))
            return 0;
    }
    return SAFE;
}
PROBE(cross_signal, "cross", "safe", "safe", "ns") {
    pid_t mine = getpid(), parent = getppid();
    for (pid_t pid = 2; pid < 33000; pid++)
        if (pid != mine && pid != parent && getpgid(pid) != getpgrp() && kill(pid, 0) == 0)
            return pid;
    return SAFE;
}
