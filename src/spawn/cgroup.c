#include "spawn/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"

static const char *const controller_names[CG_V1_COUNT] = {"memory", "pids", "cpu", "freezer",
                                                          "cpuacct"};

#define TRIES 5

/* Opens berm/<state> below the mount point of a hierarchy, and creates it. Retries because another
 * berm-spawn that ends may remove `berm` at the same time. */
static int cgroup_open_state_dir(const char *mount_point, const char *state) {
    AUTO_CLOSE int top = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = top < 0 ? -errno : -EAGAIN;
    for (int i = 0; i < TRIES && top >= 0 && r < 0; i++) {
        AUTO_CLOSE int berm = fd_make_dir(top, "berm", 0755);
        r = berm < 0 ? berm : fd_make_dir(berm, state, 0755);
    }
    return r;
}

static bool cgroup_remove_state_dir(int dir, const char *state) {
    AUTO_CLOSE int berm = dir < 0 ? -1 : openat(dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int top = berm < 0 ? -1 : openat(berm, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_gone = top >= 0 && unlinkat(berm, state, AT_REMOVEDIR) == 0;
    if (is_gone)
        unlinkat(top, "berm", AT_REMOVEDIR); /* fails while other berm-spawns use it */
    return is_gone;
}

static bool cgroup_has_word(const char *text, char between, const char *word) {
    size_t n = strlen(word);
    for (const char *p = text; p != NULL; p = strchr(p, between)) {
        p += *p == between;
        if (strncmp(p, word, n) == 0 && (p[n] == between || p[n] == '\0'))
            return true;
        p += *p != '\0' && *p != between;
    }
    return false;
}

/* Enables the controllers of a v2 tree for our subtree. Controllers that v1 uses are not available
 * here. */
static void cgroup_enable_v2(struct cgroups *cg, const char *mount_point) {
    AUTO_CLOSE int top = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int berm = openat(cg->v2, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char offered[512] = "";
    if (fd_read_text(top, "cgroup.controllers", offered, sizeof offered) < 0)
        offered[0] = '\0';
    offered[strcspn(offered, "\n")] = '\0';
    for (int i = CG_MEMORY; i <= CG_CPU && top >= 0 && berm >= 0; i++) {
        char word[16];
        if (!cgroup_has_word(offered, ' ', controller_names[i]))
            continue; /* not offered, and a write that fails is slow */
        snprintf(word, sizeof word, "+%s", controller_names[i]);
        cg->v2_has[i] = fd_write_text(top, "cgroup.subtree_control", word) == 0 &&
                        fd_write_text(berm, "cgroup.subtree_control", word) == 0 &&
                        fd_write_text(cg->v2, "cgroup.subtree_control", word) == 0;
    }
    cg->has_kill = faccessat(cg->v2, "cgroup.kill", W_OK, 0) == 0;
}

static void cgroup_add_v2(struct cgroups *cg, const char *point) {
    cg->v2 = cgroup_open_state_dir(point, cg->state);
    if (cg->v2 >= 0)
        cgroup_enable_v2(cg, point);
}

#define POINT_BYTES 1024
struct points {
    char v2[POINT_BYTES];
    char v1[CG_V1_COUNT][POINT_BYTES];
};

/* Uses the first mount of each hierarchy. */
static int cgroup_find_points(struct points *out) {
    FILE *mounts = fopen("/proc/self/mounts", "re");
    if (mounts == NULL)
        return -errno;
    char line[4096], point[POINT_BYTES], type[64], options[1024];
    while (fgets(line, sizeof line, mounts) != NULL) {
        if (sscanf(line, "%*s %1023s %63s %1023s", point, type, options) != 3)
            continue;
        if (strcmp(type, "cgroup2") == 0 && out->v2[0] == '\0')
            memcpy(out->v2, point, sizeof point);
        for (int i = 0; i < CG_V1_COUNT && strcmp(type, "cgroup") == 0; i++)
            if (out->v1[i][0] == '\0' && cgroup_has_word(options, ',', controller_names[i]))
                memcpy(out->v1[i], point, sizeof point);
    }
    fclose(mounts);
    return 0;
}

void cgroup_init(struct cgroups *cg) {
    *cg = (struct cgroups){.v2 = -1, .v1 = {-1, -1, -1, -1, -1}};
}

int cgroup_start(struct cgroups *cg, int state_fd, bool use_v2, unsigned v1_wanted) {
    struct stat st;
    if (fstat(state_fd, &st) < 0)
        return -errno;
    snprintf(cg->state, sizeof cg->state, "s-%" PRIx64 "-%" PRIx64, (uint64_t)st.st_dev,
             (uint64_t)st.st_ino);
    struct points points = {0};
    int r = cgroup_find_points(&points);
    if (r < 0)
        return r;
    if (use_v2 && points.v2[0] != '\0')
        cgroup_add_v2(cg, points.v2);
    if (cg->v2 < 0)
        v1_wanted |= 1u << CG_FREEZER | 1u << CG_CPUACCT;
    for (int i = 0; i < CG_V1_COUNT; i++)
        if ((v1_wanted & 1u << i) && points.v1[i][0] != '\0')
            cg->v1[i] = cgroup_open_state_dir(points.v1[i], cg->state);
    return cg->v2 >= 0 || cg->v1[CG_FREEZER] >= 0 ? 0 : -ENOTSUP;
}

void cgroup_finish(struct cgroups *cg) {
    /* Keep the spares while sandboxes run, because the next berm-spawn can use them. */
    if (cgroup_remove_state_dir(cgroup_seats(cg), cg->state))
        cgroup_spares_remove(cg);
    for (int i = 0; i < CG_V1_COUNT; i++)
        cgroup_remove_state_dir(cg->v1[i], cg->state);
}

uint32_t cgroup_features(const struct cgroups *cg) {
    uint32_t bits = 0;
    if (cg->v2 >= 0)
        bits |= SPAWN_HAS_CGROUP_V2;
    if (cg->has_kill)
        bits |= SPAWN_HAS_CGROUP_KILL;
    static const uint32_t limit_bits[] = {SPAWN_HAS_LIMIT_MEMORY, SPAWN_HAS_LIMIT_PIDS,
                                          SPAWN_HAS_LIMIT_CPU};
    for (int i = CG_MEMORY; i <= CG_CPU; i++)
        if (cg->v2_has[i] || cg->v1[i] >= 0)
            bits |= limit_bits[i];
    return bits;
}

int cgroup_open(int parent, const char *name) {
    if (parent < 0)
        return -ENOENT;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int cgroup_make_dir(int parent, const char *name) {
    if (mkdirat(parent, name, 0755) < 0)
        return -errno;
    return cgroup_open(parent, name);
}

uint64_t cgroup_read(int dir, const char *name, const char *key) {
    char text[4096];
    if (fd_read_text(dir, name, text, sizeof text) < 0)
        return 0;
    size_t n = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        uint64_t value;
        if (strncmp(line, key, n) == 0 && sscanf(line + n, "%" SCNu64, &value) == 1)
            return value;
        if (*line == '\0')
            break;
    }
    return 0;
}

unsigned cgroup_v1_for(const struct spawn_limits *limits) {
    unsigned bits = 0;
    for (int i = CG_MEMORY; i <= CG_CPU; i++)
        bits |= cgroup_wants(limits, i) ? 1u << i : 0;
    return bits;
}

/* Lets root inside start programs here: CLONE_INTO_CGROUP requires write access to this file. */
static int cgroup_own_procs(int dir, uint32_t owner) {
    return fchownat(dir, "cgroup.procs", owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int cgroup_make_v2(const struct cgroups *cg, const char *id,
                          const struct spawn_limits *limits, uint32_t owner,
                          struct cgroup_seat *seat) {
    AUTO_CLOSE int dir = cgroup_make_dir(cg->v2, id);
    if (dir < 0)
        return dir;
    int r = 0;
    for (int i = CG_MEMORY; r == 0 && i <= CG_CPU; i++)
        r = cg->v2_has[i] ? cgroup_limit(dir, true, i, limits) : 0;
    for (int i = CG_MEMORY; r == 0 && i <= CG_CPU; i++) {
        char word[16];
        snprintf(word, sizeof word, "+%s", controller_names[i]);
        if (cg->v2_has[i])
            r = fd_write_text(dir, "cgroup.subtree_control", word);
    }
    if (r == 0)
        r = cgroup_own_procs(dir, owner);
    if (r < 0)
        return r;
    AUTO_CLOSE int cgroup = cgroup_make_dir(dir, "guest");
    if (cgroup < 0)
        return cgroup;
    r = cgroup_own_procs(cgroup, owner);
    if (r == 0)
        seat->v2_cgroup = TAKE_FD(cgroup);
    return r;
}

static int cgroup_make_v1(struct cgroups *cg, enum cgroup_v1 which, const char *id,
                          const struct spawn_limits *limits, uint32_t owner,
                          struct cgroup_seat *seat) {
    int r = cgroup_spare_take(cg, which, id);
    AUTO_CLOSE int dir = r == -ENOENT ? cgroup_make_dir(cg->v1[which], id)
                         : r < 0      ? r
                                      : cgroup_open(cg->v1[which], id);
    r = dir < 0 ? dir
                : cgroup_own_procs(dir, owner); /* grants nothing on v1, but records the owner */
    if (r < 0)
        return r;
    AUTO_CLOSE int cgroup = -1;
    if (which == CG_FREEZER)
        cgroup = cgroup_make_dir(dir, "guest");
    else if (cgroup_limit(dir, false, which, limits) < 0)
        return -EINVAL;
    int tasks = openat(which == CG_FREEZER ? cgroup : dir, "tasks", O_WRONLY | O_CLOEXEC);
    if (tasks < 0)
        return -errno;
    seat->tasks[seat->n_tasks++] = tasks;
    return 0;
}

int cgroup_make(struct cgroups *cg, const char *id, const struct spawn_limits *limits,
                uint32_t owner, struct cgroup_seat *ret_seat) {
    struct cgroup_seat seat = {.v2_cgroup = -1};
    int r = cg->v2 >= 0 ? cgroup_make_v2(cg, id, limits, owner, &seat)
                        : cgroup_make_v1(cg, CG_FREEZER, id, limits, owner, &seat);
    if (r == 0 && cg->v2 < 0 && cg->v1[CG_CPUACCT] >= 0)
        r = cgroup_make_v1(cg, CG_CPUACCT, id, limits, owner, &seat);
    for (int i = CG_MEMORY; r == 0 && i <= CG_CPU; i++)
        if (cg->v1[i] >= 0 && !cg->v2_has[i] && cgroup_wants(limits, i))
            r = cgroup_make_v1(cg, i, id, limits, owner, &seat);
    if (r < 0) {
        cgroup_seat_close(&seat);
        if (r != -EEXIST && cgroup_remove(cg, id) < 0)
            return r; /* SWEEP removes the rest */
        return r;
    }
    *ret_seat = seat;
    return 0;
}

void cgroup_seat_close(struct cgroup_seat *seat) {
    if (seat->v2_cgroup >= 0)
        close(seat->v2_cgroup);
    seat->v2_cgroup = -1;
    fd_close_all(seat->tasks, seat->n_tasks);
    seat->n_tasks = 0;
}

int cgroup_owner(const struct cgroups *cg, const char *id, uint32_t *ret_owner) {
    struct stat st;
    char path[SPAWN_ID_MAX + sizeof "/cgroup.procs"];
    snprintf(path, sizeof path, "%s/cgroup.procs", id);
    if (fstatat(cgroup_seats(cg), path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *ret_owner = st.st_uid;
    return 0;
}

int cgroup_freeze(const struct cgroups *cg, const char *id, bool frozen) {
    AUTO_CLOSE int dir = cgroup_open(cgroup_seats(cg), id);
    if (dir < 0)
        return dir;
    if (cg->v2 >= 0)
        return fd_write_text(dir, "cgroup.freeze", frozen ? "1" : "0");
    return fd_write_text(dir, "freezer.state", frozen ? "FROZEN" : "THAWED");
}

int cgroup_usage(const struct cgroups *cg, const char *id, struct spawn_usage *ret_usage) {
    struct spawn_usage u = {0};
    AUTO_CLOSE int dir = cgroup_open(cgroup_seats(cg), id);
    if (dir < 0)
        return dir;
    AUTO_CLOSE int cpuacct = cg->v2 >= 0 ? -1 : cgroup_open(cg->v1[CG_CPUACCT], id);
    u.cpu_us = cpuacct >= 0 ? cgroup_read(cpuacct, "cpuacct.usage", "") / 1000
                            : cgroup_read(dir, "cpu.stat", "usage_usec ");
    AUTO_CLOSE int memory = cg->v2_has[CG_MEMORY] ? -1 : cgroup_open(cg->v1[CG_MEMORY], id);
    if (memory >= 0) {
        u.memory_bytes = cgroup_read(memory, "memory.usage_in_bytes", "");
        u.memory_peak_bytes = cgroup_read(memory, "memory.max_usage_in_bytes", "");
        u.oom_kills = cgroup_read(memory, "memory.oom_control", "oom_kill ");
    } else if (cg->v2_has[CG_MEMORY]) {
        u.memory_bytes = cgroup_read(dir, "memory.current", "");
        u.memory_peak_bytes = cgroup_read(dir, "memory.peak", "");
        u.oom_kills = cgroup_read(dir, "memory.events", "oom_kill ");
    }
    AUTO_CLOSE int pids = cg->v2_has[CG_PIDS] ? -1 : cgroup_open(cg->v1[CG_PIDS], id);
    u.pids = cgroup_read(pids >= 0 ? pids : dir, "pids.current", "");
    *ret_usage = u;
    return 0;
}
