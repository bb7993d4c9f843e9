/* The program that runs inside: lists the probes, or runs those of a group, each in a child.
 *
 *     probes list                     name, group, user, root, control, separated by tabs
 *     probes run GROUP [NAME...]      "name<tab>outcome" per probe
 *     probes control KIND [NAME...]   the same, where the protection is absent
 *     probes act NAME                 one of acts.c: longer scenarios that involve the host */
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "acts.h"
#include "probe.h"

extern const struct probe *const __start_probes[];
extern const struct probe *const __stop_probes[];
bool in_control, is_root;

long open_fd(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

long try_open(const char *path, int flags) {
    long fd = open_fd(path, flags | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        close((int)fd);
    return fd < 0 ? fd : 0;
}

long try_read(const char *path) {
    char byte[256];
    long fd = open_fd(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return fd;
    ssize_t n = read((int)fd, byte, sizeof byte);
    long r = n < 0 ? -errno : n == 0 ? SAFE : 0;
    close((int)fd);
    return r;
}

long try_write(const char *path, const char *text) {
    long fd = open_fd(path, O_WRONLY);
    if (fd < 0)
        return fd;
    long r = write((int)fd, text, strlen(text)) < 0 ? -errno : 0;
    close((int)fd);
    return r;
}

const char *given(const char *name) {
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

const char *scratch(const char *name) {
    static char path[512];
    const char *dir = getenv("ESCAPE_SCRATCH");
    snprintf(path, sizeof path, "%s/%s-%d", dir ? dir : "/tmp", name, (int)getpid());
    return path;
}

bool file_has(const char *path, const char *text) {
    static char all[1 << 18];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    for (ssize_t n; len < sizeof all - 1 && (n = read(fd, all + len, sizeof all - 1 - len)) > 0;)
        len += (size_t)n;
    close(fd);
    return memmem(all, len, text, strlen(text)) != NULL;
}

static void outcome_name(char *out, size_t cap, long r) {
    static const struct {
        int number;
        const char *name;
    } names[] = {
#define E(x) {x, #x}
        E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(ENOEXEC), E(EBADF), E(ECHILD), E(EAGAIN),
        E(ENOMEM), E(EACCES), E(EFAULT), E(ENOTBLK), E(EBUSY), E(EEXIST), E(EXDEV), E(ENODEV), E(ENOTDIR),
        E(EISDIR), E(EINVAL), E(ENFILE), E(EMFILE), E(ENOTTY), E(ETXTBSY), E(EFBIG), E(ENOSPC), E(ESPIPE),
        E(EROFS), E(EMLINK), E(EPIPE), E(ERANGE), E(ENAMETOOLONG), E(ENOSYS), E(ENOTEMPTY), E(ELOOP),
        E(ENODATA), E(EOVERFLOW), E(EUSERS), E(ENOTSOCK), E(EPROTOTYPE), E(ENOPROTOOPT),
        E(EPROTONOSUPPORT), E(ESOCKTNOSUPPORT), E(EOPNOTSUPP), E(EPFNOSUPPORT), E(EAFNOSUPPORT),
        E(EADDRNOTAVAIL), E(ENETUNREACH), E(EHOSTUNREACH), E(ECONNREFUSED), E(ETIMEDOUT), E(ENOBUFS),
        E(ENOKEY), E(EKEYREJECTED), E(EDQUOT), E(ENOTCONN), E(EDESTADDRREQ),
#undef E
    };
    snprintf(out, cap, r >= 0 ? "ok" : r == SAFE ? "safe" : "E%ld", -r);
    for (size_t i = 0; r < 0 && i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == -r)
            snprintf(out, cap, "%s", names[i].name);
}

static void signal_name(char *out, size_t cap, int number) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSYS, "SIGSYS"}, {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},
                 {SIGXFSZ, "SIGXFSZ"}, {SIGILL, "SIGILL"}, {SIGALRM, "timeout"}};
    snprintf(out, cap, "SIG%d", number);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].number == number)
            snprintf(out, cap, "%s", names[i].name);
}

/* Lists our children. Those that a probe leaves behind are killed; earlier ones stay. */
static int list_children(int *pids, int max) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    int n = 0;
    while (f != NULL && n < max && fscanf(f, "%d", &pids[n]) == 1)
        n++;
    if (f != NULL)
        fclose(f);
    return n;
}

static void end_strays(const int *before, int n_before) {
    static int now[1024];
    for (int turn = 0, strays = 1; strays > 0 && turn < 1000; turn++) {
        int n = list_children(now, 1024);
        strays = 0;
        for (int i = 0; i < n; i++) {
            bool known = false;
            for (int k = 0; k < n_before; k++)
                known |= now[i] == before[k];
            if (!known && ++strays > 0)
                kill(now[i], SIGKILL);
        }
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (strays > 0)
            poll(NULL, 0, 1);
    }
}

/* Runs a probe as a child in its own process group. */
static void run_one(const struct probe *p) {
    volatile long *result = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *result = SAFE - 1;
    int before[16], n_before = list_children(before, 16);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* so that the OOM killer takes the probe, not us */
        try_write("/proc/self/oom_score_adj", "1000");
        if (in_control && strncmp(p->control, "ns", 2) == 0 && unshare(CLONE_NEWNS) < 0)
            _exit(1); /* so that one control cannot affect the mounts of the next */
        *result = p->run();
        _exit(0);
    }
    int status = 0;
    bool late = true;
    int ms_max = atoi(given("ESCAPE_PROBE_MS"));
    for (int ms = 0; late && ms < ms_max; ms++) {
        late = waitpid(pid, &status, WNOHANG) != pid;
        if (late)
            poll(NULL, 0, 1);
    }
    kill(-pid, SIGKILL);
    if (late) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    char out[64];
    if (late)
        snprintf(out, sizeof out, "timeout");
    else if (WIFSIGNALED(status))
        signal_name(out, sizeof out, WTERMSIG(status));
    else if (*result == SAFE - 1)
        snprintf(out, sizeof out, "silent");
    else
        outcome_name(out, sizeof out, *result);
    printf("%s\t%s\n", p->name, out);
    munmap((void *)result, 4096);
    end_strays(before, n_before);
}

static bool is_named(const char *name, char **names) {
    if (*names == NULL)
        return true;
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

static void run_all(const char *group, const char *place, char **names) {
    for (const struct probe *const *p = __start_probes; p < __stop_probes; p++) {
        size_t n = place ? strlen(place) : 0;
        bool wanted = place ? strncmp((*p)->control, place, n) == 0 &&
                                  ((*p)->control[n] == ':' || (*p)->control[n] == '\0')
                            : strcmp((*p)->group, group) == 0;
        if (wanted && is_named((*p)->name, names))
            run_one(*p);
    }
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (const struct probe *const *p = __start_probes; p < __stop_probes; p++)
            printf("%s\t%s\t%s\t%s\t%s\n", (*p)->name, (*p)->group, (*p)->user, (*p)->root,
                   (*p)->control);
        return 0;
    }
    if (argc < 3)
        return 2;
    is_root = geteuid() == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (strcmp(argv[1], "act") == 0)
        return act_run(argv[2], argv + 3);
    in_control = strcmp(argv[1], "control") == 0;
    if (in_control && strcmp(argv[2], "user") == 0 &&
        (setgroups(0, NULL) < 0 || setresgid(1000, 1000, 1000) < 0 || setresuid(1000, 1000, 1000) < 0))
        return 1;
    if (in_control && strcmp(argv[2], "user") == 0)
        prctl(PR_SET_DUMPABLE, 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    run_all(argv[2], in_control ? argv[2] : NULL, argv + 3);
    return 0;
}
