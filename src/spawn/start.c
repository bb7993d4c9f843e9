#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/fd.h"
#include "spawn/caps.h"
#include "spawn/enter_mounts.h"
#include "spawn/layer.h"
#include "spawn/mounts.h"
#include "spawn/instance.h"
#include "spawn/rootfs.h"
#include "spawn/spawn.h"
#include "spawn/sys.h"
#include "spawn/userns.h"

#define LOCK_TURNS 5000 /* attempts to lock the state, 2 ms apart */

uint32_t spawn_feature_named(const char *name) {
    static const struct {
        const char *name;
        uint32_t bit;
    } rows[] = {{"overlay-fd", SPAWN_HAS_OVERLAY_FD},         {"cgroup-v2", SPAWN_HAS_CGROUP_V2},
                {"landlock-scope", SPAWN_HAS_LANDLOCK_SCOPE}, {"limit-disk", SPAWN_HAS_LIMIT_DISK},
                {"disk-image", SPAWN_HAS_DISK_IMAGE},         {"disk-quota", SPAWN_HAS_DISK_QUOTA}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].bit;
    return 0;
}

static bool start_is_kernel(int major, int minor) {
    struct utsname name;
    int has_major = 0, has_minor = 0;
    return uname(&name) == 0 && sscanf(name.release, "%d.%d", &has_major, &has_minor) == 2 &&
           (has_major > major || (has_major == major && has_minor >= minor));
}

/* Opens the trees of the root `host`: only real directories, because symlinks are part of the
 * generated root. */
static int start_open_trees(struct spawn *s) {
    static const struct {
        const char *target;
        bool packages;
    } names[] = {{"usr", false},    {"bin", false},         {"sbin", false},
                 {"lib", false},    {"lib32", false},       {"lib64", false},
                 {"libx32", false}, {"var/lib/dpkg", true}, {"var/lib/apt", true}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[40];
        snprintf(path, sizeof path, "/%s", names[i].target);
        int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            continue;
        struct spawn_tree *t = &s->trees[s->n_trees++];
        t->fd = fd;
        t->packages = names[i].packages;
        snprintf(t->target, sizeof t->target, "%s", names[i].target);
    }
    return s->n_trees > 0 ? 0 : -ENOENT;
}

static int start_open_state(struct spawn *s, int state_fd) {
    if (faccessat(state_fd, ".", W_OK, 0) < 0)
        return -errno;
    s->layers = fd_make_dir(state_fd, "layers", 0700);
    s->trash = fd_make_dir(state_fd, "trash", 0700);
    s->images = fd_make_dir(state_fd, "templates", 0700);
    int worst = MIN(s->layers, MIN(s->trash, s->images));
    if (worst < 0)
        return worst;
    const char *names[SPAWN_TREES_MAX + 1] = {NULL};
    for (unsigned i = 0; i < s->n_trees; i++)
        names[i] = s->trees[i].target;
    int r = rootfs_host(state_fd, names, &s->host_root);
    return r < 0 ? r : rootfs_points(state_fd, &s->points);
}

static int start_make_nodes(int root) {
    static const struct {
        const char *path;
        unsigned major, minor;
    } nodes[] = {{"dev/null", 1, 3},   {"dev/zero", 1, 5},    {"dev/full", 1, 7},
                 {"dev/random", 1, 8}, {"dev/urandom", 1, 9}, {"dev/tty", 5, 0}};
    for (size_t i = 0; i < COUNT_OF(nodes); i++)
        if (mknodat(root, nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
            0)
            return -errno;
    static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
                                           {"/proc/self/fd/0", "dev/stdin"},
                                           {"/proc/self/fd/1", "dev/stdout"},
                                           {"/proc/self/fd/2", "dev/stderr"},
                                           {"pts/ptmx", "dev/ptmx"}};
    for (size_t i = 0; i < COUNT_OF(links); i++)
        if (symlinkat(links[i][0], root, links[i][1]) < 0)
            return -errno;
    return 0;
}

/* Programs size their thread pools by these two files. Nothing else of /sys is shown. */
static int start_make_cpu_files(int root) {
    char online[256];
    ssize_t n = fd_read_text(AT_FDCWD, "/sys/devices/system/cpu/online", online, sizeof online);
    if (n <= 0)
        n = snprintf(online, sizeof online, "0\n");
    static const char *const files[] = {"sys/devices/system/cpu/online",
                                        "sys/devices/system/cpu/possible"};
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        AUTO_CLOSE int fd = openat(root, files[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
        if (fd < 0 || write(fd, online, (size_t)n) != n)
            return -EIO;
    }
    return 0;
}

/* Builds the root of our own mount namespace, which is the template for every sandbox's, and
 * returns it detached. */
static int start_make_root(bool with_layers) {
    AUTO_CLOSE int fs = sys_fsopen("tmpfs");
    int r = fs;
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", "64k", 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    AUTO_CLOSE int root = r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (root < 0)
        return root;
    static const char *const dirs[] = {"proc",
                                       "dev",
                                       "dev/pts",
                                       "dev/shm",
                                       "sys",
                                       "sys/devices",
                                       "sys/devices/system",
                                       "sys/devices/system/cpu",
                                       "stage",
                                       "stage/proc",
                                       "stage/dev",
                                       "empty",
                                       "layer"};
    for (size_t i = 0; i < COUNT_OF(dirs); i++)
        if (mkdirat(root, dirs[i], 0755) < 0)
            return -errno;
    for (int i = 0; i < SPAWN_LAYERS_MAX + 4 && with_layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer/%d", i);
        if (mkdirat(root, name, 0755) < 0)
            return -errno;
    }
    if (mknodat(root, "nothing", S_IFREG | 0444, 0) < 0)
        return -errno;
    mode_t mask = umask(0);
    r = start_make_nodes(root);
    if (r == 0)
        r = start_make_cpu_files(root);
    umask(mask);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (r == 0)
        r = sys_mount_setattr(root, "", &attr);
    return r < 0 ? r : TAKE_FD(root);
}

static int start_make_proc(bool bare) {
    AUTO_CLOSE int fs = sys_fsopen("proc");
    int r = fs;
    if (r >= 0 && bare)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "subset", "pid", 0);
    if (r >= 0 && bare)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int start_leave_host(struct spawn *s, bool with_layers) {
    if (unshare(CLONE_NEWNS) < 0)
        return -errno;
    long r = sys5(SYS_mount, 0, (long)"/", 0, MS_REC | MS_PRIVATE, 0);
    AUTO_CLOSE int root = r < 0 ? (int)r : start_make_root(with_layers);
    if (root < 0)
        return root;
    /* Any directory can be pivoted from; this one exists on every Linux. */
    r = sys_attach(root, AT_FDCWD, "/usr");
    if (r == 0 && fchdir(root) < 0)
        r = -errno;
    if (r == 0)
        r = sys2(SYS_pivot_root, (long)".", (long)".");
    if (r == 0)
        r = sys2(SYS_umount2, (long)".", 2 /* MNT_DETACH */);
    if (r == 0 && chdir("/") < 0)
        r = -errno;
    if (r < 0)
        return (int)r;
    /* A user namespace may only mount procfs where another procfs is already visible. */
    AUTO_CLOSE int bare = start_make_proc(true);
    r = bare < 0 ? bare : sys_attach(bare, AT_FDCWD, "/proc");
    if (r < 0)
        return (int)r;
    s->own_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    s->own_uts = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    return s->own_ns < 0 || s->own_uts < 0 ? -errno : 0;
}

/* Tries the option only when the kernel version does not decide, because closing the attempt waits
 * for every CPU. */
static bool start_overlay_takes_fds(int dir) {
    if (start_is_kernel(6, 13))
        return true;
    AUTO_CLOSE int fs = sys_fsopen("overlay");
    return fs >= 0 && sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, dir) == 0;
}

static int start_features(struct spawn *s, const struct spawn_options *o) {
    s->landlock_abi = landlock_abi();
    s->features = cgroup_features(&s->cg);
    if (s->landlock_abi >= 6)
        s->features |= SPAWN_HAS_LANDLOCK_SCOPE;
    if (start_overlay_takes_fds(o->state_fd))
        s->features |= SPAWN_HAS_OVERLAY_FD;
    if (faccessat(s->dev, "loop-control", R_OK | W_OK, 0) == 0)
        s->features |= SPAWN_HAS_DISK_IMAGE;
    if (s->quota != QUOTA_NONE)
        s->features |= SPAWN_HAS_DISK_QUOTA;
    s->features &= ~o->without;
    if (s->features & (SPAWN_HAS_DISK_IMAGE | SPAWN_HAS_DISK_QUOTA))
        s->features |= SPAWN_HAS_LIMIT_DISK & ~o->without;
    while (prctl(PR_CAPBSET_READ, s->last_cap + 1, 0, 0, 0) >= 0 && s->last_cap < 62)
        s->last_cap++;
    return 0;
}

static int start_net(struct spawn *s, const struct spawn_options *o) {
    int r = net_pool_start(&s->net, o->net_ahead);
    if (r == 0 && o->net_once)
        net_prepare_one(&s->net);
    return r;
}

static int start_host(struct spawn *s, const struct spawn_options *o) {
    (void)o;
    s->self = (int)sys2(SYS_pidfd_open, getpid(), 0);
    if (s->self < 0)
        return s->self;
    s->host_ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    s->dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return s->host_ns < 0 || s->dev < 0 ? -errno : start_open_trees(s);
}

static int start_cgroups(struct spawn *s, const struct spawn_options *o) {
    /* Hold a shared lock until the process ends. A process that can get the lock exclusively is
     * alone and may remove what the processes share. */
    for (int turn = 0; flock(o->state_fd, LOCK_SH | LOCK_NB) < 0; turn++) {
        struct timespec pause = {.tv_nsec = 2000000};
        if (errno != EWOULDBLOCK || turn == LOCK_TURNS)
            return -errno;
        nanosleep(&pause, NULL);
    }
    unsigned v1_wanted = o->only != NULL ? cgroup_v1_for(&o->only->limits) : ~0u;
    int r = cgroup_start(&s->cg, o->state_fd, !(o->without & SPAWN_HAS_CGROUP_V2), v1_wanted);
    if (r == 0 && o->only == NULL)
        cgroup_keep_spares(&s->cg);
    return r;
}

static int start_state(struct spawn *s, const struct spawn_options *o) {
    s->quota = quota_probe(o->state_fd);
    return start_open_state(s, o->state_fd);
}

static int start_guest(struct spawn *s, const struct spawn_options *o) {
    s->guest = fd_sealed_copy("berm-guest", o->guest_fd);
    return MIN(s->guest, 0);
}

/* Returns whether the host's own /proc suffices: for a single sandbox that does not need a full
 * one. */
static bool start_is_proc_enough(const struct spawn_options *o) {
    return o->only != NULL && !(o->only->flags & SPAWN_CREATE_STRICT_PROC);
}

static int start_proc(struct spawn *s, const struct spawn_options *o) {
    s->proc = start_is_proc_enough(o) ? open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)
                                      : start_make_proc(false);
    if (s->proc < 0)
        return s->proc == -1 ? -errno : s->proc;
    s->masks = o->only != NULL ? 0 : enter_masks_needed(s->proc);
    return 0;
}

static int start_mounts(struct spawn *s, const struct spawn_options *o) {
    (void)o;
    return start_leave_host(s, !(s->features & SPAWN_HAS_OVERLAY_FD));
}

/* A service manager may have lowered our OOM score. Sandboxes would inherit the score and how far a
 * program may lower it again, so reset it. */
static int start_oom_score(struct spawn *s, const struct spawn_options *o) {
    (void)s, (void)o;
    char text[16];
    if (fd_read_text(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text) <= 0)
        return -EIO;
    bool is_protected = text[0] == '-';
    int r = fd_write_text(AT_FDCWD, "/proc/self/oom_score_adj", is_protected ? "0" : text);
    return is_protected ? r : 0;
}

static int start_kernel(struct spawn *s, const struct spawn_options *o) {
    (void)s, (void)o;
    return start_is_kernel(6, 1) ? 0 : -ENOTSUP;
}

/* Joins a session keyring without any permissions, which sandboxes inherit. With one keyring per
 * sandbox, the kernel would visit all of them whenever one is destroyed. */
static int start_keyring(struct spawn *s, const struct spawn_options *o) {
    (void)s, (void)o;
    long ring = sys2(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0);
    if (ring == -ENOSYS)
        return 0; /* The kernel has no keyrings, so the sandbox inherits no key. */
    return (int)(ring < 0 ? ring : sys3(SYS_keyctl, KEYCTL_SETPERM, ring, 0));
}

static int start_maker(struct spawn *s, const struct spawn_options *o) {
    (void)s, (void)o;
    return userns_be_maker();
}

static int start_instances(struct spawn *s, const struct spawn_options *o) {
    (void)o;
    return instances_restore(s);
}

/* Order matters: steps that need the host's mounts come before start_mounts. */
static const struct {
    const char *what;
    int (*run)(struct spawn *s, const struct spawn_options *o);
} steps[] = {
    {"check for kernel 6.1 or newer", start_kernel},
    {"reset the out-of-memory score", start_oom_score},
    {"create network namespaces", start_net},
    {"open the host's mounts and trees", start_host},
    {"create cgroups", start_cgroups},
    {"restore running sandboxes", start_instances},
    {"open the state directory", start_state},
    {"copy PID 1's program into a sealed memfd", start_guest},
    {"detect kernel features", start_features},
    {"mount a procfs", start_proc},
    {"enter a new mount namespace", start_mounts},
    {"join an empty keyring", start_keyring},
    /* after all steps that use access(), which checks the real uid */
    {"switch the real uid", start_maker},
};

int spawn_start(struct spawn *s, const struct spawn_options *o, const char **ret_what) {
    umask(022); /* sandboxes have other uids, which a stricter mask would lock out of their roots */
    *s = (struct spawn){
        .self = -1,
        .state = o->state_fd,
        .host_ns = -1,
        .trash_wake = -1,
        .reserve_bytes = o->reserve_bytes,
        .last_cap = -1,
        .is_tied = o->is_tied,
    };
    cgroup_init(&s->cg);
    list_init(&s->instances);
    list_init(&s->dying);
    list_init(&s->held);
    s->n_allowed = MIN(o->n_allowed, SPAWN_ROOTS_MAX);
    memcpy(s->allowed, o->allowed_fds, s->n_allowed * sizeof(int));
    s->stack = mmap(NULL, SPAWN_STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    *ret_what = "allocate memory";
    if (s->stack == MAP_FAILED)
        return -ENOMEM;
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        *ret_what = steps[i].what;
        int r = steps[i].run(s, o);
        if (r < 0) {
            spawn_finish(s); /* removes the cgroups that exist already */
            return r;
        }
    }
    return 0;
}

int spawn_enter_host(const struct spawn *s) {
    return setns(s->host_ns, CLONE_NEWNS) < 0 ? -errno : 0;
}

int spawn_leave_host(const struct spawn *s) {
    return setns(s->own_ns, CLONE_NEWNS) < 0 ? -errno : 0;
}

bool spawn_has_chores(const struct spawn *s) {
    return s->spent.n_fds > 0 || s->net.owed > 0 || s->trash_pid < 0 || s->unseen_ends > 0;
}

void spawn_chores(struct spawn *s) {
    mounts_done(&s->spent);
    net_pool_refill(&s->net);
    if (s->trash_pid < 0 && layer_start_trash(s) < 0)
        return; /* out of memory or processes: retried with the next chores */
}

void spawn_finish(struct spawn *s) {
    if (flock(s->state, LOCK_EX | LOCK_NB) == 0)
        cgroup_finish(&s->cg);
    flock(s->state, LOCK_UN); /* helpers that outlive us share the open file and so the lock */
}
