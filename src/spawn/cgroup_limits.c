/* Part of cgroup.h: sets limits, either through file names or through descriptors that were opened
 * when the instance was parked, because opening a file takes far longer than writing it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/fd.h"
#include "spawn/cgroup.h"

#define CPU_PERIOD_US 100000
#define CPU_PERIOD_TEXT " 100000"

/* The controller of each file, and its names in v1 and v2. */
static const struct {
    enum cgroup_v1 which;
    const char *names[2];
} files[CG_KNOBS] = {
    [CG_KNOB_MEMORY] = {CG_MEMORY, {"memory.limit_in_bytes", "memory.max"}},
    [CG_KNOB_SWAP] = {CG_MEMORY, {"memory.memsw.limit_in_bytes", "memory.swap.max"}},
    [CG_KNOB_SOCKETS] = {CG_MEMORY, {"memory.kmem.tcp.limit_in_bytes", NULL}},
    [CG_KNOB_PIDS] = {CG_PIDS, {"pids.max", "pids.max"}},
    [CG_KNOB_CPU] = {CG_CPU, {"cpu.cfs_quota_us", "cpu.max"}},
};

/* Where to write the limits of one controller. */
struct target {
    bool is_v2;
    int dir;                         /* directory of the files, to write by name */
    const struct cgroup_knobs *open; /* open files, to write by descriptor; NULL: write by name */
};

static int cgroup_put(const struct target *t, enum cgroup_knob knob, uint64_t value,
                      const char *suffix) {
    char text[48];
    int n = snprintf(text, sizeof text, "%" PRIu64 "%s", value, suffix);
    if (t->open == NULL)
        return fd_write_text(t->dir, files[knob].names[t->is_v2], text);
    if (t->open->fds[knob] < 0)
        return -ENOENT;
    return pwrite(t->open->fds[knob], text, (size_t)n, 0) < 0 ? -errno : 0;
}

static int cgroup_limit_memory_v2(const struct target *t, uint64_t bytes) {
    int r = cgroup_put(t, CG_KNOB_MEMORY, bytes, "");
    if (r == 0 && cgroup_put(t, CG_KNOB_SWAP, 0, "") < 0)
        return 0; /* kernels without swap accounting lack the file */
    return r;
}

static int cgroup_limit_memory_v1(const struct target *t, uint64_t bytes) {
    /* The kernel refuses memory+swap below memory. Lowering must therefore set memory first, and
     * raising must set memory+swap first. Start with memory, because limits are usually lowered. */
    int r = cgroup_put(t, CG_KNOB_MEMORY, bytes, "");
    int swap = cgroup_put(t, CG_KNOB_SWAP, bytes, "");
    if (r == -EINVAL && swap == 0)
        r = cgroup_put(t, CG_KNOB_MEMORY, bytes, "");
    if (r == 0 && swap != -ENOENT)
        r = swap;
    if (r == 0) { /* v1 accounts socket memory separately */
        int tcp = cgroup_put(t, CG_KNOB_SOCKETS, bytes, "");
        r = tcp == -ENOENT ? 0 : tcp;
    }
    return r;
}

/* Skips an unchanged quota on v1, because a write there visits every cgroup with a CPU share. The
 * period is the default of a new cgroup. */
static int cgroup_limit_cpu(const struct target *t, uint64_t milli) {
    uint64_t quota_us = milli * CPU_PERIOD_US / 1000;
    if (!t->is_v2 && t->open == NULL &&
        cgroup_read(t->dir, files[CG_KNOB_CPU].names[0], "") == quota_us)
        return 0;
    return cgroup_put(t, CG_KNOB_CPU, quota_us, t->is_v2 ? CPU_PERIOD_TEXT : "");
}

static int cgroup_write_limit(const struct target *t, enum cgroup_v1 which,
                              const struct spawn_limits *l) {
    if (which == CG_MEMORY)
        return t->is_v2 ? cgroup_limit_memory_v2(t, l->memory_bytes)
                        : cgroup_limit_memory_v1(t, l->memory_bytes);
    return which == CG_PIDS ? cgroup_put(t, CG_KNOB_PIDS, l->pids, "")
                            : cgroup_limit_cpu(t, l->cpu_milli);
}

bool cgroup_wants(const struct spawn_limits *l, enum cgroup_v1 which) {
    switch (which) {
    case CG_MEMORY:
        return l->memory_bytes != 0;
    case CG_PIDS:
        return l->pids != 0;
    case CG_CPU:
        return l->cpu_milli != 0;
    case CG_FREEZER:
    case CG_CPUACCT:
    case CG_V1_COUNT:
        break;
    }
    return false;
}

int cgroup_limit(int dir, bool is_v2, enum cgroup_v1 which, const struct spawn_limits *limits) {
    struct target t = {.is_v2 = is_v2, .dir = dir};
    return cgroup_wants(limits, which) ? cgroup_write_limit(&t, which, limits) : 0;
}

static int cgroup_tree_of(const struct cgroups *cg, enum cgroup_v1 which) {
    return cg->v2_has[which] ? cg->v2 : cg->v1[which];
}

int cgroup_set_limits(const struct cgroups *cg, const char *id, const struct spawn_limits *limits) {
    AUTO_CLOSE int seat = cgroup_open(cgroup_seats(cg), id);
    int r = seat < 0 ? seat : 0;
    for (int i = CG_MEMORY; r == 0 && i <= CG_CPU; i++) {
        if (!cgroup_wants(limits, i))
            continue;
        AUTO_CLOSE int dir = cgroup_open(cgroup_tree_of(cg, i), id);
        r = dir < 0 ? dir : cgroup_limit(dir, cg->v2_has[i], i, limits);
    }
    return r;
}

/* --- files that are left open --- */

void cgroup_knobs_init(struct cgroup_knobs *k) {
    for (int i = 0; i < CG_KNOBS; i++)
        k->fds[i] = -1;
}

void cgroup_knobs_close(struct cgroup_knobs *k) {
    fd_close_all(k->fds, CG_KNOBS);
}

/* Opens one limit file. Leaves *ret_fd unchanged if the kernel does not have the file. */
static int cgroup_open_knob(const struct cgroups *cg, int dir, int knob, int first_fd,
                            int *ret_fd) {
    const char *name = files[knob].names[cg->v2_has[files[knob].which]];
    AUTO_CLOSE int fd = name ? openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        return name == NULL || errno == ENOENT ? 0 : -errno;
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, first_fd);
    if (kept < 0)
        return -errno;
    *ret_fd = kept;
    return 0;
}

void cgroup_knobs_open(const struct cgroups *cg, const char *id, int first_fd,
                       struct cgroup_knobs *k) {
    int r = 0;
    for (int i = 0; r == 0 && i < CG_KNOBS; i++) {
        AUTO_CLOSE int dir = cgroup_open(cgroup_tree_of(cg, files[i].which), id);
        if (dir >= 0) /* otherwise the sandbox has no such limit */
            r = cgroup_open_knob(cg, dir, i, first_fd, &k->fds[i]);
    }
    if (r < 0)
        cgroup_knobs_close(k); /* limits are then written by name */
}

bool cgroup_knobs_suffice(const struct cgroup_knobs *k, const struct spawn_limits *limits) {
    static const enum cgroup_knob first[] = {CG_KNOB_MEMORY, CG_KNOB_PIDS, CG_KNOB_CPU};
    for (size_t i = 0; i < COUNT_OF(first); i++)
        if (cgroup_wants(limits, files[first[i]].which) && k->fds[first[i]] < 0)
            return false;
    return true;
}

int cgroup_knobs_turn(const struct cgroups *cg, const struct cgroup_knobs *k,
                      const struct spawn_limits *limits) {
    int r = 0;
    for (int i = CG_MEMORY; r == 0 && i <= CG_CPU; i++) {
        struct target t = {.is_v2 = cg->v2_has[i], .dir = -1, .open = k};
        if (cgroup_wants(limits, i))
            r = cgroup_write_limit(&t, i, limits);
    }
    return r;
}
