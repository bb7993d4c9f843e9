#include "base/disk_space.h"

#include "harness.h"

static struct statvfs disk(fsblkcnt_t blocks, fsblkcnt_t free, fsfilcnt_t files,
                           fsfilcnt_t files_free) {
    return (struct statvfs){.f_frsize = 4096,
                            .f_blocks = blocks,
                            .f_bavail = free,
                            .f_files = files,
                            .f_favail = files_free};
}

TEST(disk_space_reserves_the_same_share_of_inodes) {
    struct statvfs v = disk(1000, 500, 10000, 5000);
    struct disk_space r = disk_space_of(&v, 100 * 4096);
    CHECK_INT(r.bytes, 500 * 4096);
    CHECK_INT(r.files, 5000);
    CHECK_INT(r.files_kept, 1000);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}

TEST(disk_space_is_short_of_bytes_or_of_inodes) {
    struct statvfs v = disk(1000, 99, 10000, 5000);
    struct disk_space r = disk_space_of(&v, 100 * 4096);
    CHECK(disk_space_is_short(&r) && !disk_space_is_ample(&r));
    v = disk(1000, 500, 10000, 999);
    r = disk_space_of(&v, 100 * 4096);
    CHECK(disk_space_is_short(&r) && !disk_space_is_ample(&r));
    v = disk(1000, 500, 10000, 1000);
    r = disk_space_of(&v, 100 * 4096);
    CHECK(!disk_space_is_short(&r) && !disk_space_is_ample(&r));
    v = disk(1000, 500, 10000, 1125);
    r = disk_space_of(&v, 100 * 4096);
    CHECK(disk_space_is_ample(&r));
}

TEST(disk_space_without_an_inode_limit_has_enough_inodes) {
    struct statvfs v = disk(1000, 500, 0, 0);
    struct disk_space r = disk_space_of(&v, 100 * 4096);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}

TEST(disk_space_is_short_with_a_reserve_larger_than_the_disk) {
    struct statvfs v = disk(1000, 1000, 10000, 10000);
    struct disk_space r = disk_space_of(&v, UINT64_MAX / 2);
    CHECK(disk_space_is_short(&r) && !disk_space_is_ample(&r));
    CHECK_INT(r.files_kept, 10000);
}

TEST(disk_space_without_a_reserve_is_never_short) {
    struct statvfs v = disk(1000, 0, 10000, 0);
    struct disk_space r = disk_space_of(&v, 0);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}
