#include "open/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PARENTS_MAX 128

static bool check_is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns whether `dir` is in `list` or beneath an entry. Returns when_unsure if the walk cannot
 * finish. */
static bool check_is_beneath(int dir, const int *list, unsigned n, bool when_unsure) {
    AUTO_CLOSE int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat here = {0}, last = {0}, there;
    for (int depth = 0; depth < PARENTS_MAX && at >= 0 && fstat(at, &here) == 0; depth++) {
        for (unsigned i = 0; i < n; i++)
            if (fstat(list[i], &there) == 0 && check_is_same(&there, &here))
                return true;
        if (check_is_same(&here, &last))
            return false; /* reached the root */
        last = here;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = up;
    }
    return when_unsure;
}

int check_learn(struct open_rules *r) {
    for (unsigned i = 0; i < r->n_never; i++) {
        AUTO_CLOSE int at = openat(r->never[i], ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat here = {0}, last = {0};
        for (;;) {
            if (at < 0 || fstat(at, &here) < 0)
                return -errno;
            if (check_is_same(&here, &last))
                break;
            if (r->n_above == OPEN_ABOVE_MAX)
                return -E2BIG;
            r->above[r->n_above++] = (struct open_spot){here.st_dev, here.st_ino};
            last = here;
            int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
            close(at);
            at = up;
        }
    }
    return 0;
}

static bool check_is_above(const struct open_rules *r, int dir) {
    struct stat st;
    if (fstat(dir, &st) < 0)
        return true;
    for (unsigned i = 0; i < r->n_above; i++)
        if (r->above[i].dev == st.st_dev && r->above[i].ino == st.st_ino)
            return true;
    return false;
}

/* Returns whether `dir` is on a kernel file system, wherever that is mounted. */
static bool check_is_of_kernel(int dir) {
    static const unsigned long types[] = {
        PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
        TRACEFS_MAGIC,    SECURITYFS_MAGIC, DEVPTS_SUPER_MAGIC, BPF_FS_MAGIC};
    struct statfs fs;
    if (fstatfs(dir, &fs) < 0)
        return true;
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if ((unsigned long)fs.f_type == types[i])
            return true;
    return false;
}

int check_target(const struct open_rules *r, int dir, bool is_file, struct err *e) {
    if (check_is_of_kernel(dir) || check_is_beneath(dir, r->never, r->n_never, true))
        return err_set(e, ERR_HOST_PATH_REFUSED,
                       "it is in /proc, /sys, /dev or the state directory");
    if (!is_file && check_is_above(r, dir))
        return err_set(e, ERR_HOST_PATH_REFUSED,
                       "it contains /proc, /sys, /dev or the state directory");
    if (!check_is_beneath(dir, r->roots, r->n_roots, false))
        return err_set(e, ERR_HOST_PATH_REFUSED,
                       "it is not beneath a directory of the knob mount_roots");
    return 0;
}

int check_owner(int dir, bool writable, struct err *e) {
    struct stat st;
    if (fstat(dir, &st) < 0)
        return err_set(e, ERR_HOST_PATH_REFUSED, "stat failed");
    bool has_group = st.st_gid == getegid() || group_member(st.st_gid);
    bool is_own = geteuid() == 0 || (st.st_uid == geteuid() && has_group);
    if (writable && !is_own)
        return err_set(e, ERR_HOST_PATH_REFUSED,
                       "it does not belong to the caller, so it cannot be writable");
    if (writable && st.st_uid == 0)
        return err_set(e, ERR_HOST_PATH_REFUSED, "it belongs to root, so it cannot be writable");
    return is_own ? 0 : 1;
}
