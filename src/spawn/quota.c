#include "spawn/quota.h"

#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include "spawn/sys.h"

#define XFS_MAGIC 0x58465342
#define QUOTACTL_FD 443 /* same number on every architecture; some libcs lack a name for it */
#define BYTES_PER_INODE 4096
#define INODES_MIN 1024
#define OURS (UINT32_C(1) << 31) /* a bit above the small numbers that administrators use */
#define DRAWS 16

static int quota_call(int fd, unsigned cmd, uint32_t project, void *arg) {
    return (int)sys4(QUOTACTL_FD, fd, QCMD(cmd, PRJQUOTA), project, (long)arg);
}

enum quota_answer quota_probe(int state) {
    struct fs_quota_statv quota = {.qs_version = FS_QSTATV_VERSION1};
    struct statfs fs;
    struct fsxattr attr;
    if (quota_call(state, Q_XGETQSTATV, 0, &quota) < 0 || !(quota.qs_flags & FS_QUOTA_PDQ_ENFD) ||
        fstatfs(state, &fs) < 0 || ioctl(state, FS_IOC_FSGETXATTR, &attr) < 0)
        return QUOTA_NONE;
    /* The state directory already has a quota project. Its quota must go on counting the layers, so
     * they get no projects of their own. */
    if (attr.fsx_projid != 0)
        return QUOTA_NONE;
    if (fs.f_type == XFS_MAGIC)
        return QUOTA_ENOSPC;
    return fs.f_type == EXT4_SUPER_MAGIC ? QUOTA_EDQUOT : QUOTA_NONE;
}

static int quota_set_limits(int dir, uint32_t project, uint64_t bytes, uint64_t inodes) {
    struct if_dqblk limits = {
        .dqb_bhardlimit = bytes / QIF_DQBLKSIZE,
        .dqb_ihardlimit = inodes,
        .dqb_valid = QIF_LIMITS,
    };
    return quota_call(dir, Q_SETQUOTA, project, &limits);
}

/* Chooses an unused project number at random, because other state directories may share the file
 * system. */
static int quota_draw_project(int dir, uint32_t *ret_project) {
    for (int turn = 0; turn < DRAWS; turn++) {
        uint32_t project;
        if (sys3(SYS_getrandom, (long)&project, sizeof project, 0) != sizeof project)
            return -EIO;
        project |= OURS;
        struct if_dqblk used = {0};
        int r = quota_call(dir, Q_GETQUOTA, project, &used);
        if (r < 0 && r != -ENOENT) /* XFS reports ENOENT until a project has a file */
            return r;
        if (used.dqb_curspace == 0 && used.dqb_curinodes == 0 && used.dqb_bhardlimit == 0) {
            *ret_project = project;
            return 0;
        }
    }
    return -EBUSY;
}

int quota_set(int dir, uint64_t bytes, uint64_t inodes) {
    struct fsxattr attr;
    uint32_t project = 0;
    int r = ioctl(dir, FS_IOC_FSGETXATTR, &attr) < 0 ? -errno : quota_draw_project(dir, &project);
    if (r < 0)
        return r;
    /* Set the limits first, so that a directory with a project always has limits. */
    r = quota_set_limits(dir, project, bytes,
                         inodes ? inodes : MAX(bytes / BYTES_PER_INODE, INODES_MIN));
    attr.fsx_projid = project;
    attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (r < 0 || ioctl(dir, FS_IOC_FSSETXATTR, &attr) == 0)
        return r;
    r = -errno;
    return quota_set_limits(dir, project, 0, 0) < 0 ? -EIO : r;
}

static uint32_t quota_project_of(int dir) {
    struct fsxattr attr;
    if (ioctl(dir, FS_IOC_FSGETXATTR, &attr) < 0 || !(attr.fsx_xflags & FS_XFLAG_PROJINHERIT))
        return 0;
    return attr.fsx_projid & OURS ? attr.fsx_projid : 0;
}

bool quota_is_set(int dir) {
    return quota_project_of(dir) != 0;
}

void quota_clear(int dir) {
    uint32_t project = quota_project_of(dir);
    if (project != 0 && quota_set_limits(dir, project, 0, 0) < 0)
        return; /* harmless: only the limits of an unused project stay */
}
