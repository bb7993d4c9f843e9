#include "spawn/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "spawn/layer.h"
#include "spawn/rootfs.h"
#include "spawn/sys.h"
#include "spawn/userns.h"

#define PARENTS_MAX 256

/* A root under construction. */
struct build {
    struct spawn *s;
    const struct spawn_create *req;
    const struct mounts_input *in;
    struct enter *e;
    struct mounts *m;
    int userns;
    int tree_map; /* id mapping of the host's trees */
    uint32_t base;
    int layer;
    /* lower layers of the root: the generated root, or image and mount points */
    int base_lowers[2];
    unsigned n_base;
    int kept[SPAWN_LAYERS_MAX];
    uint32_t kept_base[SPAWN_LAYERS_MAX];
    int trees[SPAWN_TREES_MAX];
    int binds[SPAWN_MOUNTS_MAX];
};

/* Stores fd in `m`, to be closed at the end. Returns a negative fd, which is an error,
 * unchanged. */
static int mounts_keep(struct mounts *m, int fd) {
    if (fd < 0)
        return fd;
    if (m->n_fds == MOUNTS_FDS_MAX) {
        close(fd);
        return -EMFILE;
    }
    return m->fds[m->n_fds++] = fd;
}

/* Attaches all detached mounts to the layer, which was opened first, and closes them as one tree,
 * because the kernel waits for every CPU for each tree that is closed. move_mount fails for
 * descriptors that are not mounts or are already part of a sandbox, and for all descriptors on
 * kernels before 6.15. Each mount must become private first: a clone is a peer of its source, so
 * the next mount would otherwise appear on the host. */
void mounts_done(struct mounts *m) {
    struct mount_attr alone = {.propagation = MS_PRIVATE};
    for (unsigned i = 0; i < m->n_fds; i++) {
        bool is_alone = sys_mount_setattr(m->fds[i], "", &alone) == 0;
        if (i == 0 && !is_alone)
            break;
        if (i > 0 && is_alone)
            sys_attach(m->fds[i], m->fds[0], "");
    }
    fd_close_all(m->fds, m->n_fds);
    *m = (struct mounts){.n_fds = 0};
}

bool mounts_allowed(const struct spawn *s, int dir) {
    AUTO_CLOSE int above = -1;
    struct stat here = {0}, last = {0};
    for (int depth = 0; depth < PARENTS_MAX && fstat(dir, &here) == 0; depth++) {
        for (unsigned i = 0; i < s->n_allowed; i++) {
            struct stat root;
            if (fstat(s->allowed[i], &root) == 0 && root.st_dev == here.st_dev &&
                root.st_ino == here.st_ino)
                return true;
        }
        if (here.st_dev == last.st_dev && here.st_ino == last.st_ino)
            return false; /* reached the root */
        last = here;
        int up = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close_all(&above, 1);
        dir = above = up;
    }
    return false;
}

static int mounts_map_mount(int mount, int userns, bool writable) {
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (writable ? 0 : MOUNT_ATTR_RDONLY) |
                    (userns >= 0 ? MOUNT_ATTR_IDMAP : 0),
        .userns_fd = userns >= 0 ? (uint64_t)userns : 0,
        .propagation = MS_PRIVATE,
    };
    return sys_mount_setattr(mount, "", &attr);
}

static bool mounts_wants_tree(const struct build *b, const struct spawn_tree *t) {
    return !t->packages || b->req->profile == SPAWN_PROFILE_ROOT;
}

static int mounts_clone_binds(struct spawn *s, const int *dirs, unsigned n, struct mounts *m,
                              int *ret_binds) {
    for (unsigned i = 0; i < n; i++) {
        if (!mounts_allowed(s, dirs[i]))
            return -EACCES;
        ret_binds[i] = mounts_keep(m, sys_clone_tree(dirs[i], ""));
        if (ret_binds[i] < 0)
            return ret_binds[i];
    }
    return 0;
}

/* Does everything that needs the host's mount namespace: opens and clones, nothing else. */
static int mounts_clone_from_host(struct build *b, uint32_t *ret_step) {
    b->layer = mounts_keep(b->m, layer_open(b->s, b->req, &b->m->made_layer, ret_step));
    if (b->layer < 0)
        return b->layer;
    for (unsigned i = 0; i < b->req->n_layers; i++) {
        b->kept[i] = mounts_keep(b->m, layer_open_kept(b->s, b->req->layers[i], &b->kept_base[i]));
        if (b->kept[i] < 0)
            return b->kept[i];
    }
    *ret_step = STEP_TREE;
    if (b->req->root == SPAWN_ROOT_IMAGE) {
        if (!mounts_allowed(b->s, b->in->image))
            return -EACCES;
        b->base_lowers[b->n_base++] = mounts_keep(b->m, sys_clone_tree(b->in->image, ""));
        b->base_lowers[b->n_base++] = mounts_keep(b->m, sys_clone_tree(b->s->points, ""));
    } else {
        b->base_lowers[b->n_base++] = mounts_keep(b->m, sys_clone_tree(b->s->host_root, ""));
        for (unsigned i = 0; i < b->s->n_trees; i++)
            if (mounts_wants_tree(b, &b->s->trees[i])) {
                b->trees[i] = mounts_keep(b->m, sys_clone_tree(b->s->trees[i].fd, ""));
                if (b->trees[i] < 0)
                    return b->trees[i];
            }
    }
    for (unsigned i = 0; i < b->n_base; i++)
        if (b->base_lowers[i] < 0)
            return b->base_lowers[i];
    *ret_step = STEP_BIND;
    return mounts_clone_binds(b->s, b->in->binds, b->req->n_mounts, b->m, b->binds);
}

/* Maps the lower layers: ids from 0 on disk appear as ids of the sandbox's slot. Kept layers have
 * ids of the slot that wrote them. */
static int mounts_map_lowers(struct build *b) {
    int r = 0;
    for (unsigned i = 0; r == 0 && i < b->n_base; i++)
        r = mounts_map_mount(b->base_lowers[i], b->userns, false);
    for (unsigned i = 0; r == 0 && i < b->req->n_layers; i++) {
        int map = -1;
        if (b->kept_base[i] != b->base) {
            struct userns_part part = {b->kept_base[i], b->kept_base[i], b->base, SPAWN_UID_SPAN};
            map = mounts_keep(b->m, userns_for_mount(b->s->proc, &part, 1));
            if (map < 0)
                return map;
        }
        r = mounts_map_mount(b->kept[i], map, false);
    }
    return r;
}

/* A lower layer of an overlay. A directory of a kept layer also has a path, for kernels that need
 * paths. */
struct lower {
    int fd;
    char path[80];
};

/* Adds the `name` directories of kept layers above this lower layer, if they exist. */
static int mounts_kept_lowers(struct build *b, const char *name, struct lower *lowers,
                              unsigned *n) {
    for (unsigned i = 0; i < b->req->n_layers; i++) {
        int dir = mounts_keep(b->m, fd_open_beneath(b->kept[i], name, O_PATH | O_DIRECTORY, 0));
        if (dir == -ENOENT)
            continue;
        if (dir < 0)
            return dir;
        struct lower *l = &lowers[(*n)++];
        l->fd = dir;
        snprintf(l->path, sizeof l->path, "/layer/%u/%s", i + 1, name);
    }
    return 0;
}

/* Kernels before 6.13 accept layers only as paths. So layers are attached temporarily in our own
 * namespace, after the child's copy of it was made. /layer/0 is the writable layer, 1 to 8 the kept
 * ones, and the others hold the lower layers of one overlay at a time. */
#define FIRST_LOWER (SPAWN_LAYERS_MAX + 1)

static int mounts_attach_layers(struct build *b) {
    int r = sys_attach(b->layer, AT_FDCWD, "/layer/0");
    for (unsigned i = 0; r == 0 && i < b->req->n_layers; i++) {
        char path[24];
        snprintf(path, sizeof path, "/layer/%u", i + 1);
        r = sys_attach(b->kept[i], AT_FDCWD, path);
    }
    return r;
}

static void mounts_detach_layers(unsigned first) {
    for (unsigned i = first; i < SPAWN_LAYERS_MAX + 4; i++) {
        char path[24];
        snprintf(path, sizeof path, "/layer/%u", i);
        sys2(SYS_umount2, (long)path, 2 /* MNT_DETACH */);
    }
}

static int mounts_set_lowers_by_path(int fs, const struct lower *lowers, unsigned n) {
    char all[(SPAWN_LAYERS_MAX + 2) * 80] = "";
    char path[80];
    int r = 0;
    unsigned next = FIRST_LOWER;
    for (unsigned i = 0; r == 0 && i < n; i++) {
        snprintf(path, sizeof path, "%s", lowers[i].path);
        if (path[0] == '\0') {
            snprintf(path, sizeof path, "/layer/%u", next++);
            r = sys_attach(lowers[i].fd, AT_FDCWD, path);
        }
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ":" : "", path);
    }
    return r < 0 ? r : sys_fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", all, 0);
}

static int mounts_set_layers_by_path(int fs, const char *upper, const char *work,
                                     const struct lower *lowers, unsigned n) {
    char path[80];
    int r = mounts_set_lowers_by_path(fs, lowers, n);
    snprintf(path, sizeof path, "/layer/0/%s", upper);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", path, 0);
    snprintf(path, sizeof path, "/layer/0/%s", work);
    return r < 0 ? r : sys_fsconfig(fs, FSCONFIG_SET_STRING, "workdir", path, 0);
}

static int mounts_set_lowers_by_fd(int fs, const struct lower *lowers, unsigned n) {
    int r = 0;
    for (unsigned i = 0; r == 0 && i < n; i++)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, lowers[i].fd);
    return r;
}

static int mounts_set_layers_by_fd(int fs, int upper, int work, const struct lower *lowers,
                                   unsigned n) {
    int r = mounts_set_lowers_by_fd(fs, lowers, n);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper);
    return r < 0 ? r : sys_fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work);
}

/* Sets options so that the kernel follows nothing that the owner of the layer may have stored in
 * it. */
static int mounts_finish_overlay(int fs) {
    static const char *const options[][2] = {{"source", "berm"},
                                             {"redirect_dir", "nofollow"},
                                             {"metacopy", "off"},
                                             {"index", "off"},
                                             {"xino", "off"}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < COUNT_OF(options); i++)
        r = sys_fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0);
    if (r == 0)
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    return r < 0 ? r : sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* `owner` is the host id that owns the top directory. */
static int mounts_make_overlay(struct build *b, const char *upper_name, const char *work_name,
                               uint32_t owner, const struct lower *lowers, unsigned n) {
    int upper = -1, work = -1;
    int r = layer_pair(b->layer, upper_name, work_name, owner, &upper, &work);
    AUTO_CLOSE int upper_fd = upper;
    AUTO_CLOSE int work_fd = work;
    AUTO_CLOSE int fs = r < 0 ? r : sys_fsopen("overlay");
    if (fs < 0)
        return fs;
    if (b->s->features & SPAWN_HAS_OVERLAY_FD) {
        r = mounts_set_layers_by_fd(fs, upper_fd, work_fd, lowers, n);
        return r < 0 ? r : mounts_keep(b->m, mounts_finish_overlay(fs));
    }
    r = mounts_set_layers_by_path(fs, upper_name, work_name, lowers, n);
    r = r < 0 ? r : mounts_keep(b->m, mounts_finish_overlay(fs));
    mounts_detach_layers(FIRST_LOWER);
    return r;
}

/* Makes a read-only overlay between the sandbox and the host's inodes, because watches and locks on
 * those inodes would affect the host. An overlay without an upper layer needs two lower layers. */
static int mounts_make_screen(struct build *b, int tree) {
    AUTO_CLOSE int empty = open("/empty", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fs = empty < 0 ? -errno : sys_fsopen("overlay");
    if (fs < 0)
        return fs;
    struct lower lowers[] = {{.fd = tree}, {.fd = empty, .path = "/empty"}};
    int r = b->s->features & SPAWN_HAS_OVERLAY_FD
                ? mounts_set_lowers_by_fd(fs, lowers, COUNT_OF(lowers))
                : mounts_set_lowers_by_path(fs, lowers, COUNT_OF(lowers));
    r = r < 0 ? r : mounts_keep(b->m, mounts_finish_overlay(fs));
    if (!(b->s->features & SPAWN_HAS_OVERLAY_FD))
        mounts_detach_layers(FIRST_LOWER);
    return r;
}

static void mounts_add_mount(struct build *b, int fd, const char *target, bool make) {
    b->e->mounts[b->e->n_mounts++] = (struct enter_mount){.fd = fd, .target = target, .make = make};
}

static int mounts_build_root(struct build *b) {
    struct lower lowers[SPAWN_LAYERS_MAX + 2] = {0};
    unsigned n = 0;
    int r = mounts_kept_lowers(b, "upper", lowers, &n);
    for (unsigned i = 0; i < b->n_base; i++)
        lowers[n++].fd = b->base_lowers[i];
    if (r == 0)
        r = mounts_make_overlay(b, "upper", "work", b->base, lowers, n);
    if (r < 0)
        return r;
    b->e->root = r;
    return 0;
}

/* Maps root and system accounts. Files of people in the host's trees belong to nobody inside,
 * because uid 1000 there is not the sandbox's user. */
static int mounts_map_trees(struct build *b) {
    const struct userns_part parts[] = {
        {0, 0, b->base, ROOTFS_PEOPLE},
        {ROOTFS_NOBODY, ROOTFS_NOBODY, b->base + ROOTFS_NOBODY, 1},
    };
    b->tree_map = mounts_keep(b->m, userns_for_mount(b->s->proc, parts, COUNT_OF(parts)));
    return MIN(b->tree_map, 0);
}

/* Makes a tree an overlay with a writable layer if it is writable or was written before. */
static int mounts_build_tree(struct build *b, unsigned index) {
    const struct spawn_tree *t = &b->s->trees[index];
    char upper[48], work[48];
    snprintf(upper, sizeof upper, "t-%s-upper", t->target);
    snprintf(work, sizeof work, "t-%s-work", t->target);
    for (char *p = upper; *p; p++)
        *p = *p == '/' ? '_' : *p;
    for (char *p = work; *p; p++)
        *p = *p == '/' ? '_' : *p;
    int r = mounts_map_mount(b->trees[index], b->tree_map, false);
    struct lower lowers[SPAWN_LAYERS_MAX + 1] = {0};
    unsigned n = 0;
    if (r == 0)
        r = mounts_kept_lowers(b, upper, lowers, &n);
    if (r < 0)
        return r;
    bool written = n > 0 || fd_has_entry(b->layer, upper);
    lowers[n++].fd = b->trees[index];
    if (b->req->profile == SPAWN_PROFILE_ROOT || written)
        r = mounts_make_overlay(b, upper, work, b->base, lowers, n);
    else
        r = mounts_make_screen(b, b->trees[index]);
    if (r >= 0)
        mounts_add_mount(b, r, t->target, false);
    return MIN(r, 0);
}

static uint32_t mounts_user_of(const struct mounts_owner *owner) {
    return owner->base + (owner->profile == SPAWN_PROFILE_ROOT ? 0 : SPAWN_USER_UID);
}

static int mounts_make_map(const struct spawn *s, const struct mounts_owner *owner, uint32_t uid,
                           uint32_t gid) {
    struct userns_part part = {uid, gid, mounts_user_of(owner), 1};
    return userns_for_mount(s->proc, &part, 1);
}

void mounts_map_ahead(const struct spawn *s, struct mounts_owner *owner) {
    owner->uid = s->dir_uid;
    owner->gid = s->dir_gid;
    AUTO_CLOSE int made = s->has_dir ? mounts_make_map(s, owner, s->dir_uid, s->dir_gid) : -1;
    owner->map = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, SPAWN_HELD_FD);
}

/* Maps the owner of the directory to the sandbox's user; other owners become nobody. */
static int mounts_map_owner(struct spawn *s, const struct mounts_owner *owner, int bind,
                            uint32_t flags) {
    struct stat st;
    bool writable = (flags & SPAWN_MOUNT_WRITABLE) != 0;
    if (fstat(bind, &st) < 0)
        return -errno;
    if (writable && st.st_uid == 0)
        return -EPERM; /* new files belong to the owner: a setuid file would be root's */
    bool is_ahead = owner->map >= 0 && owner->uid == st.st_uid && owner->gid == st.st_gid;
    AUTO_CLOSE int made = is_ahead ? -1 : mounts_make_map(s, owner, st.st_uid, st.st_gid);
    if (!is_ahead && made < 0)
        return made;
    s->dir_uid = st.st_uid;
    s->dir_gid = st.st_gid;
    s->has_dir = true;
    int r = mounts_map_mount(bind, is_ahead ? owner->map : made, writable);
    /* The file system does not support id mapping, so mount it unmapped: files that everybody can
     * read are readable. Not for a layered mount, where copied-up files would keep the host's
     * owner. */
    if (r == -EINVAL && flags == 0)
        r = mounts_map_mount(bind, -1, false);
    return r;
}

static int mounts_map_bind(struct spawn *s, const struct mounts_owner *owner, int bind,
                           uint32_t flags) {
    return flags & SPAWN_MOUNT_PUBLIC ? mounts_map_mount(bind, -1, false)
                                      : mounts_map_owner(s, owner, bind, flags);
}

/* Mounts an overlay over the directory, with an upper layer of the sandbox, so the directory never
 * changes. */
static int mounts_build_layered(struct build *b, const struct mounts_owner *owner, unsigned index) {
    const struct spawn_mount *mount = &b->req->mounts[index];
    char upper[LAYER_NAME_MAX], work[LAYER_NAME_MAX];
    struct lower lowers[SPAWN_LAYERS_MAX + 1] = {0};
    unsigned n = 0;
    layer_names(mount->target, upper, work);
    int r = mounts_kept_lowers(b, upper, lowers, &n);
    lowers[n++].fd = b->binds[index];
    if (r == 0)
        r = mounts_make_overlay(b, upper, work, mounts_user_of(owner), lowers, n);
    if (r >= 0)
        mounts_add_mount(b, r, mount->target + 1, true);
    return MIN(r, 0);
}

static int mounts_build_bind(struct build *b, unsigned index) {
    const struct spawn_mount *mount = &b->req->mounts[index];
    struct mounts_owner owner = {.profile = b->req->profile, .base = b->base, .map = -1};
    int r = mounts_map_bind(b->s, &owner, b->binds[index], mount->flags);
    if (r == 0 && mount->flags == SPAWN_MOUNT_LAYERED)
        r = mounts_build_layered(b, &owner, index);
    else if (r == 0)
        mounts_add_mount(b, b->binds[index], mount->target + 1, true);
    return r;
}

static int mounts_build_all(struct build *b, uint32_t *ret_step) {
    *ret_step = STEP_OVERLAY;
    int r = mounts_build_root(b);
    *ret_step = r == 0 ? STEP_TREE : *ret_step;
    if (r == 0 && b->req->root == SPAWN_ROOT_HOST)
        r = mounts_map_trees(b);
    for (unsigned i = 0; r == 0 && b->req->root == SPAWN_ROOT_HOST && i < b->s->n_trees; i++)
        if (mounts_wants_tree(b, &b->s->trees[i]))
            r = mounts_build_tree(b, i);
    *ret_step = r == 0 ? STEP_BIND : *ret_step;
    for (unsigned i = 0; r == 0 && i < b->req->n_mounts; i++)
        r = mounts_build_bind(b, i);
    return r;
}

int mounts_build(struct spawn *s, const struct spawn_create *req, const struct mounts_input *in,
                 int userns, struct enter *e, struct mounts *m, uint32_t *ret_step) {
    struct build b = {.s = s,
                      .req = req,
                      .in = in,
                      .e = e,
                      .m = m,
                      .userns = userns,
                      .base = userns_base(req->slot)};
    *ret_step = STEP_TREE;
    int r = spawn_enter_host(s);
    if (r < 0)
        return r;
    r = mounts_clone_from_host(&b, ret_step);
    int back = spawn_leave_host(s);
    if (r < 0 || back < 0)
        return r < 0 ? r : back;
    *ret_step = STEP_IDMAP;
    r = mounts_map_lowers(&b);
    if (r < 0)
        return r;
    bool by_path = !(s->features & SPAWN_HAS_OVERLAY_FD);
    if (by_path)
        r = mounts_attach_layers(&b);
    r = r < 0 ? r : mounts_build_all(&b, ret_step);
    if (by_path)
        mounts_detach_layers(0);
    return r;
}

int mounts_binds(struct spawn *s, const struct spawn_mount *mounts, unsigned n, const int *dirs,
                 const struct mounts_owner *owner, struct mounts *m, int *ret_binds,
                 uint32_t *ret_step) {
    *ret_step = STEP_BIND;
    int r = n > 0 ? spawn_enter_host(s) : 0;
    if (r < 0 || n == 0)
        return r;
    r = mounts_clone_binds(s, dirs, n, m, ret_binds);
    int back = spawn_leave_host(s);
    if (back < 0)
        return back;
    for (unsigned i = 0; r == 0 && i < n; i++)
        r = mounts_map_bind(s, owner, ret_binds[i], mounts[i].flags);
    return r;
}
