#include "base/disk_space.h"

#include <errno.h>

struct disk_space disk_space_of(const struct statvfs *v, uint64_t reserve) {
    uint64_t all = (uint64_t)v->f_blocks * v->f_frsize;
    struct disk_space r = {
        .bytes = (uint64_t)v->f_bavail * v->f_frsize, .bytes_kept = reserve, .files = UINT64_MAX};
    if (v->f_files == 0 || all == 0)
        return r; /* no inode limit, for example btrfs */
    r.files = v->f_favail;
    r.files_kept = (uint64_t)((double)v->f_files * (double)MIN(reserve, all) / (double)all);
    return r;
}

int disk_space_read(int fd, uint64_t reserve, struct disk_space *ret) {
    struct statvfs v;
    if (fstatvfs(fd, &v) < 0)
        return -errno;
    *ret = disk_space_of(&v, reserve);
    return 0;
}

bool disk_space_is_short(const struct disk_space *r) {
    return r->bytes < r->bytes_kept || r->files < r->files_kept;
}

bool disk_space_is_ample(const struct disk_space *r) {
    return r->bytes >= r->bytes_kept + r->bytes_kept / 8 &&
           r->files >= r->files_kept + r->files_kept / 8;
}
