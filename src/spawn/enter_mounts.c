#include "spawn/enter_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>

#include "spawn/sys.h"

#define STAGE_PROC "/stage/proc/"
#define STAGE_DEV "/stage/dev"
#define SHM_BYTES "67108864"

/* Files that reveal or control the host and that are not restricted to the host's root. The host's
 * root owns procfs, so files without permissions for others are already inaccessible inside. */
static const struct {
    const char *name;
    const char *with;
} masks[] = {
    {"kcore", "/nothing"},
    {"keys", "/nothing"},
    {"key-users", "/nothing"},
    {"latency_stats", "/nothing"},
    {"timer_list", "/nothing"},
    {"sched_debug", "/nothing"},
    {"interrupts", "/nothing"},
    {"kpagecount", "/nothing"},
    {"kpageflags", "/nothing"},
    {"kpagecgroup", "/nothing"},
    {"config.gz", "/nothing"},
    {"modules", "/nothing"},
    {"kallsyms", "/nothing"},
    {"iomem", "/nothing"},
    {"sysrq-trigger", "/nothing"},
    {"diskstats", "/nothing"},
    {"partitions", "/nothing"},
    {"slabinfo", "/nothing"},
    {"vmallocinfo", "/nothing"},
    {"allocinfo", "/nothing"},
    {"scsi", "/empty"},
    {"acpi", "/empty"},
    {"asound", "/empty"},
    {"bus", "/empty"},
    {"fs", "/empty"},
    {"irq", "/empty"},
    {"driver", "/empty"},
    {"cmdline", "/nothing"},
    {"dynamic_debug", "/empty"},
    {"pressure", "/empty"},
};
_Static_assert(COUNT_OF(masks) <= 32, "a bit for each");

static bool enter_is_open_to_others(int dir, const char *path) {
    struct statx st;
    long r = sys5(SYS_statx, dir, (long)path, AT_SYMLINK_NOFOLLOW, STATX_MODE, (long)&st);
    return r == 0 && (st.stx_mode & 0007) != 0;
}

uint32_t enter_masks_needed(int proc) {
    uint32_t bits = 0;
    for (size_t i = 0; i < COUNT_OF(masks); i++)
        bits |= enter_is_open_to_others(proc, masks[i].name) ? UINT32_C(1) << i : 0;
    return bits;
}

static int enter_bind(const char *from, const char *to) {
    return (int)sys5(SYS_mount, (long)from, (long)to, 0, MS_BIND, 0);
}

static void enter_join(char *out, size_t cap, const char *head, const char *tail) {
    size_t n = 0;
    while (*head != '\0' && n + 1 < cap)
        out[n++] = *head++;
    while (*tail != '\0' && n + 1 < cap)
        out[n++] = *tail++;
    out[n] = '\0';
}

static int enter_mask_all(uint32_t needed) {
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        char path[64];
        if (needed != 0 && !(needed & UINT32_C(1) << i))
            continue;
        enter_join(path, sizeof path, STAGE_PROC, masks[i].name);
        if (needed == 0 && !enter_is_open_to_others(AT_FDCWD, path))
            continue;
        int r = enter_bind(masks[i].with, path);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Makes /proc/sys read-only. Root inside owns some of its files, including the namespace limits,
 * and must not write them. */
static int enter_freeze_sysctls(void) {
    int r = enter_bind(STAGE_PROC "sys", STAGE_PROC "sys");
    if (r < 0)
        return r;
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          MOUNT_ATTR_NOEXEC};
    return sys_mount_setattr(AT_FDCWD, STAGE_PROC "sys", &attr);
}

static int enter_new_mount(const char *type, const char *const (*options)[2], unsigned attrs) {
    int fs = sys_fsopen(type);
    int r = fs;
    for (size_t i = 0; r >= 0 && options[i][0] != NULL; i++)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    if (r >= 0)
        r = sys_fsmount(fs, attrs);
    if (fs >= 0)
        sys_close(fs);
    return r;
}

static int enter_attach_new(const char *type, const char *const (*options)[2], unsigned attrs,
                            const char *target) {
    int fd = enter_new_mount(type, options, attrs);
    if (fd < 0)
        return fd;
    int r = sys_attach(fd, AT_FDCWD, target);
    sys_close(fd);
    return r;
}

int enter_stage_proc(struct enter *e) {
    static const char *const standard[][2] = {{"hidepid", "invisible"}, {NULL, NULL}};
    static const char *const strict[][2] = {
        {"hidepid", "invisible"}, {"subset", "pid"}, {NULL, NULL}};
    bool is_strict = (e->flags & SPAWN_CREATE_STRICT_PROC) != 0;
    int r =
        enter_attach_new("proc", is_strict ? strict : standard,
                         MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "/stage/proc");
    if (r < 0)
        return r;
    /* Uses this new procfs if possible. In a shared procfs, every user namespace adds an entry of
     * the same name, and each lookup walks the entries of all sandboxes. */
    e->sysctl = is_strict ? sys_openat(e->proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC, 0)
                          : sys_openat(AT_FDCWD, STAGE_PROC "sys/user",
                                       O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (e->sysctl < 0 || is_strict)
        return MIN(e->sysctl, 0);
    r = enter_freeze_sysctls();
    return r < 0 ? r : enter_mask_all(e->masks);
}

int enter_stage_dev(struct enter *e) {
    static const char *const pts[][2] = {{"newinstance", ""}, {"ptmxmode", "0666"},
                                         {"mode", "0620"},    {"gid", "5"},
                                         {"max", "64"},       {NULL, NULL}};
    static const char *const shm[][2] = {
        {"mode", "1777"}, {"size", SHM_BYTES}, {"nr_inodes", "16384"}, {NULL, NULL}};
    int r = enter_bind("/dev", STAGE_DEV);
    if (r == 0)
        r = enter_attach_new("devpts", pts + 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                             STAGE_DEV "/pts");
    if (r == 0)
        r = enter_attach_new("tmpfs", shm, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                             STAGE_DEV "/shm");
    e->sys = r < 0 ? r : sys_clone_tree(AT_FDCWD, "/sys");
    return MIN(e->sys, 0);
}

static int enter_open_inside(int root, const char *path, int flags) {
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)sys4(SYS_openat2, root, (long)path, (long)&how, sizeof how);
}

/* Gives the new directory the owner of its parent, so that a directory in the user's home does not
 * belong to root. */
static int enter_make_dir(int root, int parent, const char *path) {
    struct statx st;
    long r = sys3(SYS_mkdirat, root, (long)path, 0755);
    if (r == 0)
        r = sys5(SYS_statx, parent, (long)"", AT_EMPTY_PATH, STATX_UID | STATX_GID, (long)&st);
    if (r == 0)
        r = sys5(SYS_fchownat, root, (long)path, st.stx_uid, st.stx_gid, AT_SYMLINK_NOFOLLOW);
    return (int)r;
}

/* Creates the missing directories of `path`. */
static int enter_make_path(int root, const char *path) {
    char part[SPAWN_TARGET_MAX];
    int parent = root;
    int r = 0;
    for (size_t n = 0; r == 0 && n < sizeof part; n++) {
        part[n] = '\0';
        if (path[n] == '/' || path[n] == '\0') {
            int dir = enter_open_inside(root, part, O_PATH | O_DIRECTORY);
            if (dir == -ENOENT) {
                r = enter_make_dir(root, parent, part);
                dir = r < 0 ? r : enter_open_inside(root, part, O_PATH | O_DIRECTORY);
            }
            if (parent != root)
                sys_close(parent);
            parent = dir;
            r = MIN(dir, 0);
        }
        if (r == 0 && path[n] == '\0')
            break;
        part[n] = path[n];
        r = r == 0 && n + 1 == sizeof part ? -ENAMETOOLONG : r;
    }
    if (parent >= 0 && parent != root)
        sys_close(parent);
    return r;
}

static int enter_attach_inside(int root, int mount, const char *target, bool make) {
    int at = enter_open_inside(root, target, O_PATH | O_DIRECTORY);
    if (at == -ENOENT && make) {
        int r = enter_make_path(root, target);
        at = r < 0 ? r : enter_open_inside(root, target, O_PATH | O_DIRECTORY);
    }
    if (at < 0)
        return at;
    int r = sys_attach(mount, at, "");
    sys_close(at);
    return r;
}

/* Moves a tree that was completed in /stage. */
static int enter_move_inside(int root, const char *from, const char *target) {
    int at = enter_open_inside(root, target, O_PATH | O_DIRECTORY);
    if (at < 0)
        return at;
    long r = sys5(SYS_move_mount, AT_FDCWD, (long)from, at, (long)"", MOVE_MOUNT_T_EMPTY_PATH);
    sys_close(at);
    return (int)r;
}

int enter_attach_late(int mount, const char *target) {
    /* setns changed our root to the sandbox's */
    return enter_attach_inside(AT_FDCWD, mount, target, true);
}

int enter_attach_mounts(struct enter *e) {
    /* Attach over our own root. Until the chroot, lookups from "/" still start at the mount
     * below. */
    int r = sys_attach(e->root, AT_FDCWD, "/");
    for (unsigned i = 0; r == 0 && i < e->n_mounts; i++)
        r = enter_attach_inside(e->root, e->mounts[i].fd, e->mounts[i].target, e->mounts[i].make);
    if (r == 0)
        r = enter_move_inside(e->root, "/stage/proc", "proc");
    if (r == 0)
        r = enter_move_inside(e->root, STAGE_DEV, "dev");
    if (r == 0)
        r = enter_attach_inside(e->root, e->sys, "sys", false);
    return r;
}

/* Works like switch_root in an initramfs. pivot_root would walk every task of the host, only to
 * unmount our empty read-only tmpfs, which is unreachable from now on. */
int enter_switch_root(struct enter *e) {
    long r = sys1(SYS_fchdir, e->root);
    if (r == 0)
        r = sys1(SYS_chroot, (long)".");
    if (r == 0)
        r = sys1(SYS_chdir, (long)"/");
    return (int)r;
}
