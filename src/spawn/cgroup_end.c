/* Part of cgroup.h: kills sandboxes, creates and kills exec cgroups, removes cgroups. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/fd.h"
#include "spawn/cgroup.h"

/* Kills the listed processes one by one, for trees without cgroup.kill. Checks the list again after
 * pidfd_open, so that a reused pid cannot be killed by mistake. */
static void cgroup_kill_listed(int dir) {
    char text[16384];
    ssize_t n = fd_read_text(dir, "cgroup.procs", text, sizeof text);
    if (n <= 0)
        return;
    char *save = NULL;
    for (char *word = strtok_r(text, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
        AUTO_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, atoi(word), 0);
        char again[16384];
        if (pidfd < 0 || fd_read_text(dir, "cgroup.procs", again, sizeof again) <= 0)
            continue;
        size_t len = strlen(word);
        for (const char *p = strstr(again, word); p != NULL; p = strstr(p + 1, word))
            if ((p == again || p[-1] == '\n') && p[len] == '\n')
                syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    }
}

/* Calls each(name) for every subdirectory. */
static void cgroup_each_subdir(int dir, void (*each)(int dir, const char *name)) {
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (list == NULL) {
        if (copy >= 0)
            close(copy);
        return;
    }
    for (struct dirent *e = readdir(list); e != NULL; e = readdir(list))
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            each(dir, e->d_name);
    closedir(list);
}

static void cgroup_kill_subdir(int dir, const char *name) {
    AUTO_CLOSE int cgroup = cgroup_open(dir, name);
    if (cgroup >= 0)
        cgroup_kill_listed(cgroup);
}

static void cgroup_kill_tree(int dir, bool has_kill) {
    if (has_kill && fd_write_text(dir, "cgroup.kill", "1") == 0)
        return;
    cgroup_kill_listed(dir);
    cgroup_each_subdir(dir, cgroup_kill_subdir);
}

void cgroup_kill(const struct cgroups *cg, const char *id) {
    AUTO_CLOSE int freezer = cg->v2 >= 0 ? -1 : cgroup_open(cg->v1[CG_FREEZER], id);
    if (freezer >= 0) { /* on v1, a frozen task handles SIGKILL only after it is thawed */
        cgroup_kill_tree(freezer, false);
        if (fd_write_text(freezer, "freezer.state", "THAWED") < 0)
            return;
    }
    AUTO_CLOSE int dir = cgroup_open(cg->v2, id);
    if (dir >= 0)
        cgroup_kill_tree(dir, cg->has_kill);
}

static void cgroup_remove_subdir(int dir, const char *name) {
    unlinkat(dir, name,
             AT_REMOVEDIR); /* a failure makes the parent's rmdir fail, which is reported */
}

static int cgroup_remove_one(int parent, const char *id) {
    if (parent < 0)
        return 0;
    AUTO_CLOSE int dir = cgroup_open(parent, id);
    if (dir >= 0)
        cgroup_each_subdir(dir, cgroup_remove_subdir);
    if (unlinkat(parent, id, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return errno == ENOTEMPTY ? -EBUSY : -errno;
}

int cgroup_remove(struct cgroups *cg, const char *id) {
    int worst = cgroup_remove_one(cgroup_seats(cg), id);
    bool is_empty = worst == 0; /* rmdir succeeds only if no process is left in this tree */
    for (int i = 0; i < CG_V1_COUNT; i++) {
        if (is_empty && cgroup_spare_put(cg, i, id))
            continue;
        int r = cgroup_remove_one(cg->v1[i], id);
        if (r < 0)
            worst = r;
    }
    return worst;
}

static void cgroup_exec_name(char *out, size_t cap, uint32_t cgroup) {
    snprintf(out, cap, "x-%u", cgroup);
}

int cgroup_exec_make(const struct cgroups *cg, const char *id, uint32_t cgroup, uint32_t owner,
                     int *ret_fd) {
    char name[24];
    cgroup_exec_name(name, sizeof name, cgroup);
    AUTO_CLOSE int dir = cgroup_open(cgroup_seats(cg), id);
    if (dir < 0)
        return dir;
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST) /* a new client may repeat the request */
        return -errno;
    AUTO_CLOSE int fd = cgroup_open(dir, name);
    if (fd < 0)
        return fd;
    if (cg->v2 < 0) {
        int tasks = openat(fd, "tasks", O_WRONLY | O_CLOEXEC);
        *ret_fd = tasks;
        return tasks < 0 ? -errno : 0;
    }
    if (fchownat(fd, "cgroup.procs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static bool cgroup_is_populated(int dir) {
    char text[256];
    if (fd_read_text(dir, "cgroup.events", text, sizeof text) > 0)
        return strstr(text, "populated 1") != NULL;
    return fd_read_text(dir, "cgroup.procs", text, sizeof text) != 0;
}

int cgroup_exec_kill(const struct cgroups *cg, const char *id, uint32_t cgroup) {
    char name[24];
    cgroup_exec_name(name, sizeof name, cgroup);
    AUTO_CLOSE int dir = cgroup_open(cgroup_seats(cg), id);
    if (dir < 0)
        return dir;
    AUTO_CLOSE int fd = cgroup_open(dir, name);
    if (fd < 0)
        return fd;
    for (int turn = 0; turn < 100 && cgroup_is_populated(fd); turn++) {
        cgroup_kill_tree(fd, cg->has_kill);
        if (cg->v2 < 0 && fd_write_text(fd, "freezer.state", "THAWED") < 0)
            return -EIO;
        struct timespec pause = {.tv_nsec = 1000000};
        if (cgroup_is_populated(fd))
            nanosleep(&pause, NULL);
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0)
        return errno == ENOTEMPTY ? -EBUSY : -errno;
    return 0;
}

static void cgroup_each_in(int dir, void (*each)(const char *id, void *arg), void *arg) {
    int copy = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (list == NULL)
        return;
    for (struct dirent *e = readdir(list); e != NULL; e = readdir(list))
        if (e->d_type == DT_DIR && e->d_name[0] != '.')
            each(e->d_name, arg);
    closedir(list);
}

void cgroup_each(const struct cgroups *cg, void (*each)(const char *id, void *arg), void *arg) {
    cgroup_each_in(cg->v2, each, arg);
    for (int i = 0; i < CG_V1_COUNT; i++)
        cgroup_each_in(cg->v1[i], each, arg);
}

void cgroup_each_seat(const struct cgroups *cg, void (*each)(const char *id, void *arg),
                      void *arg) {
    cgroup_each_in(cgroup_seats(cg), each, arg);
}
