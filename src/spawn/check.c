#include "spawn/check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/str.h"
#include "spawn/disk.h"
#include "spawn/layer.h"

#define MEMORY_MIN (UINT64_C(1) << 20)
#define MEMORY_MAX (UINT64_C(1) << 50)
#define CPU_MILLI_MIN 10
#define CPU_MILLI_MAX (1024 * 1000)
#define PIDS_MIN 4
#define PIDS_MAX (UINT64_C(1) << 22)
#define FILE_MIN (UINT64_C(1) << 16)
#define INODES_MIN 64
#define INODES_MAX (UINT64_C(1) << 31)

bool check_id(const char id[SPAWN_ID_MAX]) {
    size_t n = strnlen(id, SPAWN_ID_MAX);
    if (n == 0 || id[0] == '-' || !str_is_padded(id, SPAWN_ID_MAX))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9') || id[i] == '-'))
            return false;
    return true;
}

static bool check_is_in(uint64_t value, uint64_t min, uint64_t max) {
    return value == 0 || (value >= min && value <= max);
}

int check_limits(const struct spawn_limits *l, uint32_t features, uint32_t *ret_missing) {
    if (!check_is_in(l->memory_bytes, MEMORY_MIN, MEMORY_MAX) ||
        !check_is_in(l->cpu_milli, CPU_MILLI_MIN, CPU_MILLI_MAX) ||
        !check_is_in(l->pids, PIDS_MIN, PIDS_MAX) ||
        !check_is_in(l->disk_bytes, DISK_MIN_BYTES, DISK_MAX_BYTES) ||
        !check_is_in(l->disk_inodes, INODES_MIN, INODES_MAX) ||
        !check_is_in(l->file_bytes, FILE_MIN, DISK_MAX_BYTES) ||
        (l->disk_inodes != 0 && l->disk_bytes == 0))
        return -EINVAL;
    const struct {
        uint64_t requested;
        uint32_t feature;
    } needs[] = {{l->memory_bytes, SPAWN_HAS_LIMIT_MEMORY},
                 {l->cpu_milli, SPAWN_HAS_LIMIT_CPU},
                 {l->pids, SPAWN_HAS_LIMIT_PIDS}};
    for (size_t i = 0; i < COUNT_OF(needs); i++)
        if (needs[i].requested != 0 && !(features & needs[i].feature)) {
            *ret_missing = needs[i].feature;
            return -ENOTSUP;
        }
    return 0;
}

/* Returns whether the path is absolute, not "/", and has no empty, "." or ".." components. */
static bool check_is_target(const char path[SPAWN_TARGET_MAX]) {
    if (path[0] != '/' || path[1] == '\0' || !str_is_padded(path, SPAWN_TARGET_MAX))
        return false;
    for (const char *p = path; *p != '\0';) {
        p++;
        size_t part = strcspn(p, "/");
        if (part == 0 || (part == 1 && p[0] == '.') || (part == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += part;
    }
    return true;
}

/* Returns whether a mount there would hide parts of the sandbox's own root. */
static bool check_is_reserved_target(const char *path) {
    static const char *const reserved[] = {"/proc", "/dev", "/sys"};
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        size_t n = strlen(reserved[i]);
        if (strncmp(path, reserved[i], n) == 0 && (path[n] == '/' || path[n] == '\0'))
            return true;
    }
    return false;
}

static bool check_has_text(const struct spawn_create *req) {
    if (req->n_argv == 0 || req->n_argv > SPAWN_STRINGS_MAX || req->n_env > SPAWN_STRINGS_MAX)
        return false;
    size_t at = 0;
    for (uint32_t i = 0; i < req->n_argv + req->n_env; i++) {
        size_t n = strnlen(req->text + at, SPAWN_TEXT_MAX - at);
        if (at + n >= SPAWN_TEXT_MAX)
            return false;
        at += n + 1;
    }
    return true;
}

/* Returns whether an earlier mount uses the same layer. Two overlays must not share one. */
static bool check_has_layer_before(const struct spawn_mount *mounts, uint32_t i) {
    char upper[LAYER_NAME_MAX], other[LAYER_NAME_MAX], work[LAYER_NAME_MAX];
    layer_names(mounts[i].target, upper, work);
    for (uint32_t k = 0; k < i; k++) {
        layer_names(mounts[k].target, other, work);
        if (mounts[k].flags == SPAWN_MOUNT_LAYERED && strcmp(upper, other) == 0)
            return true;
    }
    return false;
}

static bool check_has_good_mounts(const struct spawn_mount *mounts, uint32_t n, uint32_t max,
                                  uint32_t flags) {
    if (n > max)
        return false;
    uint32_t n_layered = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t kind = mounts[i].flags;
        if (!check_is_target(mounts[i].target) || check_is_reserved_target(mounts[i].target) ||
            mounts[i].reserved != 0 || (kind & ~flags) != 0 || (kind & (kind - 1)) != 0)
            return false;
        if (kind == SPAWN_MOUNT_LAYERED &&
            (++n_layered > SPAWN_LAYERED_MAX || check_has_layer_before(mounts, i)))
            return false;
    }
    return true;
}

static bool check_has_good_fields(const struct spawn_create *req) {
    if (!check_id(req->id) || req->slot >= SPAWN_SLOTS ||
        (req->hostname[0] != '\0' && !check_id(req->hostname)) ||
        (req->profile != SPAWN_PROFILE_USER && req->profile != SPAWN_PROFILE_ROOT) ||
        (req->root != SPAWN_ROOT_HOST && req->root != SPAWN_ROOT_IMAGE) ||
        (req->layer != SPAWN_LAYER_DISK && req->layer != SPAWN_LAYER_MEMORY) ||
        req->network != SPAWN_NETWORK_NONE || (req->flags & ~(uint32_t)SPAWN_CREATE_ALL) != 0 ||
        req->n_layers > SPAWN_LAYERS_MAX || !check_has_text(req) ||
        !check_has_good_mounts(req->mounts, req->n_mounts, SPAWN_MOUNTS_MAX, SPAWN_MOUNT_ALL) ||
        ((req->flags & SPAWN_CREATE_PARKED) && req->n_mounts > 0))
        return false;
    for (uint32_t i = 0; i < req->n_layers; i++)
        if (!check_id(req->layers[i]) || strcmp(req->layers[i], req->id) == 0)
            return false;
    return true;
}

static bool check_is_directory(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Refuses a directory, because as standard input it would allow an escape. Other types are the
 * client's decision. */
static bool check_is_stdio(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && !S_ISBLK(st.st_mode) &&
           !S_ISLNK(st.st_mode);
}

static bool check_is_control_socket(int fd) {
    int domain = 0, listens = 1;
    socklen_t n = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 || domain != AF_UNIX)
        return false;
    n = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n) == 0 && listens == 0;
}

struct check_fds check_split_fds(const struct spawn_create *req, const int *fds) {
    struct check_fds out = {.control = -1, .stdio = {-1, -1, -1}, .image = -1};
    if (req->flags & SPAWN_CREATE_CONTROL)
        out.control = *fds++;
    if (req->flags & SPAWN_CREATE_STDIO)
        for (int i = 0; i < 3; i++)
            out.stdio[i] = *fds++;
    if (req->root == SPAWN_ROOT_IMAGE)
        out.image = *fds++;
    out.binds = fds;
    return out;
}

static bool check_has_good_fds(const struct spawn_create *req, const int *fds, size_t n_fds) {
    size_t wanted = ((req->flags & SPAWN_CREATE_CONTROL) ? 1 : 0) +
                    ((req->flags & SPAWN_CREATE_STDIO) ? 3 : 0) +
                    (req->root == SPAWN_ROOT_IMAGE ? 1 : 0) + req->n_mounts;
    if (n_fds != wanted)
        return false;
    struct check_fds f = check_split_fds(req, fds);
    if (f.control >= 0 && !check_is_control_socket(f.control))
        return false;
    if (f.image >= 0 && !check_is_directory(f.image))
        return false;
    for (int i = 0; i < 3; i++)
        if (f.stdio[i] >= 0 && !check_is_stdio(f.stdio[i]))
            return false;
    for (uint32_t i = 0; i < req->n_mounts; i++)
        if (!check_is_directory(f.binds[i]))
            return false;
    return true;
}

int check_create(const struct spawn_create *req, const int *fds, size_t n_fds, uint32_t features,
                 uint32_t *ret_missing) {
    if (!check_has_good_fields(req) || !check_has_good_fds(req, fds, n_fds))
        return -EINVAL;
    if (req->layer == SPAWN_LAYER_DISK && req->limits.disk_bytes != 0 &&
        !(features & SPAWN_HAS_LIMIT_DISK)) {
        *ret_missing = SPAWN_HAS_LIMIT_DISK;
        return -ENOTSUP;
    }
    return check_limits(&req->limits, features, ret_missing);
}

int check_claim(const struct spawn_claim *req, const int *fds, size_t n_fds, uint32_t features,
                uint32_t *ret_missing) {
    const struct spawn_limits *l = &req->limits;
    if ((req->hostname[0] != '\0' && !check_id(req->hostname)) || req->reserved != 0 ||
        l->disk_bytes != 0 || l->disk_inodes != 0 || l->file_bytes != 0 ||
        !check_has_good_mounts(req->mounts, req->n_mounts, SPAWN_CLAIM_MOUNTS_MAX,
                               SPAWN_MOUNT_PUBLIC) ||
        n_fds != req->n_mounts)
        return -EINVAL;
    for (size_t i = 0; i < n_fds; i++)
        if (!check_is_directory(fds[i]))
            return -EINVAL;
    return check_limits(l, features, ret_missing);
}
