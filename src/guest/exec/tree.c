#include "guest/exec/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"

void tree_done(struct tree *t) {
    if (t->cgroup >= 0)
        close(t->cgroup);
    t->cgroup = -1;
}

struct tree_pids {
    pid_t *of;
    size_t n;
};

static void tree_pids_done(struct tree_pids *p) {
    free(p->of);
}
#define AUTO_PIDS __attribute__((cleanup(tree_pids_done)))

static int tree_pids_add(struct tree_pids *p, pid_t pid) {
    if (p->n == TREE_MAX)
        return -E2BIG;
    if ((p->n & (p->n - 1)) == 0) { /* the array doubles at each power of two */
        pid_t *grown = realloc(p->of, MAX(p->n * 2, (size_t)16) * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        p->of = grown;
    }
    p->of[p->n++] = pid;
    return 0;
}

static int tree_read_cgroup(int cgroup, struct tree_pids *ret) {
    AUTO_CLOSE int fd = openat(cgroup, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char text[1024];
    pid_t pid = 0;
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            int r = pid > 0 ? tree_pids_add(ret, pid) : 0; /* 0: outside our pid namespace */
            if (r < 0)
                return r;
            pid = 0;
        }
    }
    return n < 0 ? -errno : 0;
}

/* Returns the parent of a live process, else -1. The process name in the line may contain any byte, so the
 * fields after it are found from its last parenthesis. */
static pid_t tree_parent_of(pid_t pid) {
    char path[32], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n <= 0)
        return -1;
    line[n] = '\0';
    char *end = strrchr(line, ')');
    char state;
    int parent;
    if (!end || sscanf(end + 1, " %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X')
        return -1;
    return parent;
}

struct tree_process {
    pid_t pid;
    pid_t parent;
};

static int tree_read_processes(struct tree_process *of, size_t max, size_t *ret_n) {
    DIR *dir = opendir("/proc");
    if (!dir)
        return -errno;
    size_t n = 0;
    for (struct dirent *d; n < max && (d = readdir(dir));) {
        uint64_t pid;
        if (str_to_u64(str_of(d->d_name), 1, INT32_MAX, &pid) < 0)
            continue;
        pid_t parent = tree_parent_of((pid_t)pid);
        if (parent > 0)
            of[n++] = (struct tree_process){(pid_t)pid, parent};
    }
    closedir(dir);
    *ret_n = n;
    return 0;
}

/* Collects the descendants of `root`, without root itself. */
static int tree_read_descendants(pid_t root, struct tree_pids *ret) {
    AUTO_FREE struct tree_process *all = malloc(TREE_MAX * sizeof *all);
    size_t n = 0;
    if (!all)
        return -ENOMEM;
    int r = tree_read_processes(all, TREE_MAX, &n);
    if (r < 0)
        return r;
    pid_t parent = root;
    for (size_t next = 0;;) {
        for (size_t i = 0; i < n; i++) {
            if (all[i].parent != parent)
                continue;
            r = tree_pids_add(ret, all[i].pid);
            if (r < 0)
                return r;
        }
        if (next == ret->n)
            return 0;
        parent = ret->of[next++];
    }
}

static int tree_read(const struct tree *t, struct tree_pids *ret) {
    if (t->cgroup >= 0)
        return tree_read_cgroup(t->cgroup, ret);
    return t->shepherd > 0 ? tree_read_descendants(t->shepherd, ret) : 0;
}

/* The fallback when the list is empty or cannot be read: the leader and its process group. */
static void tree_signal_leader(const struct tree *t, int sig) {
    if (t->leader > 0 && kill(-t->leader, sig) < 0)
        kill(t->leader, sig);
}

int tree_signal(const struct tree *t, int sig) {
    AUTO_PIDS struct tree_pids p = {0};
    int r = tree_read(t, &p);
    if (r < 0 || p.n == 0)
        tree_signal_leader(t, sig);
    for (size_t i = 0; i < p.n; i++)
        kill(p.of[i], sig);
    return r < 0 ? r : (int)p.n;
}

void tree_kill(const struct tree *t) {
    if (t->cgroup >= 0 && fd_write_text(t->cgroup, "cgroup.kill", "1") == 0)
        return;
    /* Stop all first, so that none forks while the others are killed. */
    if (t->cgroup < 0)
        tree_signal(t, SIGSTOP);
    tree_signal(t, SIGKILL);
}

/* A shepherd exits after the last process below it, so its exit shows that the tree is empty. */
bool tree_check_empty(struct tree *t) {
    AUTO_PIDS struct tree_pids p = {0};
    if (t->cgroup < 0)
        return t->shepherd == 0;
    if (t->is_empty)
        return true;
    bool is_empty = tree_read_cgroup(t->cgroup, &p) >= 0 && p.n == 0;
    t->is_empty = is_empty && t->leader == 0;
    return is_empty;
}

bool tree_was_out_of_memory(const struct tree *t) {
    char text[1024];
    if (t->cgroup < 0 || fd_read_text(t->cgroup, "memory.events", text, sizeof text) < 0)
        return false;
    const char *kills = strstr(text, "oom_kill ");
    return kills && strtoul(kills + 9, NULL, 10) > 0;
}
