#include "spawn/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/disk_space.h"
#include "spawn/disk.h"
#include "spawn/quota.h"
#include "spawn/sys.h"
#include "spawn/userns.h"

#define MEMORY_LAYER_BYTES (UINT64_C(256) << 20)
#define MEMORY_LAYER_INODES 65536

/* Fails when the disk reserve is not free, because a new sandbox would only fill the disk
 * further. */
static int layer_check_reserve(const struct spawn *s) {
    struct disk_space space;
    int r = disk_space_read(s->state, s->reserve_bytes, &space);
    return r < 0 ? r : disk_space_is_short(&space) ? -ENOSPC : 0;
}

static int layer_open_memory(const struct spawn_create *req) {
    char size[32], inodes[32];
    const struct spawn_limits *l = &req->limits;
    snprintf(size, sizeof size, "%" PRIu64, l->disk_bytes ? l->disk_bytes : MEMORY_LAYER_BYTES);
    snprintf(inodes, sizeof inodes, "%" PRIu64,
             l->disk_inodes
                 ? l->disk_inodes
                 : MIN(MEMORY_LAYER_INODES,
                       MAX(l->disk_bytes ? l->disk_bytes / 8192 : MEMORY_LAYER_INODES, 1024)));
    AUTO_CLOSE int fs = sys_fsopen("tmpfs");
    int r = fs;
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0700", 0);
    if (r >= 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* Prefers a project quota if it reports ENOSPC like a full disk, or if images are not available. */
static bool layer_prefers_quota(const struct spawn *s) {
    return (s->features & SPAWN_HAS_DISK_QUOTA) != 0 &&
           (s->quota == QUOTA_ENOSPC || !(s->features & SPAWN_HAS_DISK_IMAGE));
}

/* Sets the limit once, while the layer is empty. */
static int layer_limit_dir(int dir, const struct spawn_limits *l) {
    if (quota_is_set(dir))
        return 0;
    if (fd_has_entry(dir, "upper"))
        return -EBUSY; /* the quota would not count existing files */
    return quota_set(dir, l->disk_bytes, l->disk_inodes);
}

static int layer_open_disk(struct spawn *s, const struct spawn_create *req, bool *made) {
    /* The mode is 0711 because another slot that uses this directory as a lower layer sees its
     * owner as nobody. The parent directory keeps other users out. */
    *made = mkdirat(s->layers, req->id, 0711) == 0;
    if (!*made && errno != EEXIST)
        return -errno;
    AUTO_CLOSE int dir = fd_open_beneath(s->layers, req->id, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return dir;
    bool has_image = fd_has_entry(dir, DISK_IMAGE);
    int r = 0;
    if (!has_image && req->limits.disk_bytes != 0 && (layer_prefers_quota(s) || quota_is_set(dir)))
        r = layer_limit_dir(dir, &req->limits);
    else if (has_image || req->limits.disk_bytes != 0)
        return disk_mount(s, dir, req->limits.disk_bytes, req->limits.disk_inodes);
    return r < 0 ? r : sys_clone_tree(dir, "");
}

int layer_open(struct spawn *s, const struct spawn_create *req, bool *made, uint32_t *ret_step) {
    *ret_step = STEP_LAYER;
    if (req->layer == SPAWN_LAYER_MEMORY)
        return layer_open_memory(req);
    *ret_step = STEP_DISK_RESERVE;
    int r = layer_check_reserve(s);
    if (r < 0)
        return r;
    *ret_step = STEP_LAYER;
    return layer_open_disk(s, req, made);
}

int layer_open_kept(struct spawn *s, const char *id, uint32_t *ret_base) {
    AUTO_CLOSE int dir = fd_open_beneath(s->layers, id, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return dir;
    bool has_image = fd_has_entry(dir, DISK_IMAGE);
    AUTO_CLOSE int mount = has_image ? disk_mount(s, dir, 0, 0) : sys_clone_tree(dir, "");
    if (mount < 0)
        return mount;
    struct stat st;
    if (fstatat(mount, "upper", &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (st.st_uid < userns_base(0))
        return -EPERM;
    *ret_base = st.st_uid - st.st_uid % SPAWN_UID_SPAN;
    return TAKE_FD(mount);
}

/* Refuses a directory of another slot. Its owner inside the slot may have changed, because root
 * inside can change it. */
static int layer_owned_dir(int layer, const char *name, uint32_t owner) {
    bool fresh = mkdirat(layer, name, 0755) == 0;
    if (!fresh && errno != EEXIST)
        return -errno;
    AUTO_CLOSE int dir = fd_open_beneath(layer, name, O_RDONLY | O_DIRECTORY, 0);
    struct stat st;
    if (dir < 0)
        return dir;
    if (fresh && fchown(dir, owner, owner) < 0)
        return -errno;
    if (fstat(dir, &st) < 0)
        return -errno;
    return st.st_uid / SPAWN_UID_SPAN == owner / SPAWN_UID_SPAN ? TAKE_FD(dir) : -EPERM;
}

int layer_pair(int layer, const char *upper, const char *work, uint32_t owner, int *ret_upper,
               int *ret_work) {
    AUTO_CLOSE int up = layer_owned_dir(layer, upper, owner);
    if (up < 0)
        return up;
    AUTO_CLOSE int wk = layer_owned_dir(layer, work, owner);
    if (wk < 0)
        return wk;
    *ret_upper = TAKE_FD(up);
    *ret_work = TAKE_FD(wk);
    return 0;
}

/* Hashes the path with FNV-1a into names of fixed length. */
void layer_names(const char *target, char ret_upper[LAYER_NAME_MAX],
                 char ret_work[LAYER_NAME_MAX]) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *p = target; *p != '\0'; p++)
        hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    snprintf(ret_upper, LAYER_NAME_MAX, "m-%016" PRIx64 "-upper", hash);
    snprintf(ret_work, LAYER_NAME_MAX, "m-%016" PRIx64 "-work", hash);
}
