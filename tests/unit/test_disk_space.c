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

TEST(a_reserve_keeps_the_same_share_of_files) {
    struct statvfs v = disk(1000, 500, 10000, 5000);
    struct disk_space r = disk_space_of(&v, 100 * 4096);
    CHECK_INT(r.bytes, 500 * 4096);
    CHECK_INT(r.files, 5000);
    CHECK_INT(r.files_kept, 1000);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}

TEST(either_may_be_short) {
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

TEST(a_disk_that_counts_no_files_has_enough) {
    struct statvfs v = disk(1000, 500, 0, 0);
    struct disk_space r = disk_space_of(&v, 100 * 4096);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}

TEST(a_reserve_larger_than_the_disk_is_never_met) {
    struct statvfs v = disk(1000, 1000, 10000, 10000);
    struct disk_space r = disk_space_of(&v, UINT64_MAX / 2);
    CHECK(disk_space_is_short(&r) && !disk_space_is_ample(&r));
    CHECK_INT(r.files_kept, 10000);
}

TEST(no_reserve_is_always_kept) {
    struct statvfs v = disk(1000, 0, 10000, 0);
    struct disk_space r = disk_space_of(&v, 0);
    CHECK(!disk_space_is_short(&r) && disk_space_is_ample(&r));
}
