#include "base/arena.h"

#include "harness.h"

TEST(arena_gives_aligned_memory_that_does_not_overlap) {
    struct arena a;
    CHECK_INT(arena_init(&a, 256, 1 << 20), 0);
    uint8_t *before = NULL;
    for (size_t i = 1; i < 2000; i++) {
        uint8_t *p = arena_alloc(&a, i);
        if (!CHECK(p != NULL) || !CHECK_INT((uintptr_t)p % 16, 0))
            break;
        memset(p, (int)i, i);
        if (before)
            CHECK_INT(before[0], (uint8_t)(i - 1));
        before = p;
        if (i % 100 == 0) {
            arena_reset(&a);
            before = NULL;
        }
    }
    arena_done(&a);
}

TEST(arena_stops_at_its_cap) {
    struct arena a;
    CHECK_INT(arena_init(&a, 64, 100000), 0);
    CHECK(arena_alloc(&a, 100001) == NULL);
    CHECK(arena_alloc(&a, SIZE_MAX) == NULL);
    size_t total = 0;
    while (arena_alloc(&a, 1000))
        total += 1000;
    CHECK(total >= 90000 && total <= 120000);
    arena_reset(&a);
    CHECK(arena_alloc(&a, 1000) != NULL);
    arena_done(&a);
}

TEST(arena_copies_with_a_nul) {
    struct arena a;
    CHECK_INT(arena_init(&a, 64, 1000), 0);
    CHECK_STR(arena_copy(&a, "abcdef", 3), "abc");
    char *z = arena_zalloc(&a, 16);
    CHECK_INT(z[0] | z[15], 0);
    arena_done(&a);
}

TEST(arena_survives_memory_running_out) {
    struct arena a;
    alloc_fail_at(1);
    CHECK(arena_init(&a, 64, 1000) < 0);
    CHECK_INT(arena_init(&a, 64, 100000), 0);
    alloc_fail_at(1);
    CHECK(arena_alloc(&a, 5000) == NULL);
    CHECK(arena_alloc(&a, 5000) != NULL);
    arena_done(&a);
}
