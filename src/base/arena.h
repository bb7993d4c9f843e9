/* arena — memory of one call, freed all at once.
 *
 * Bounds:  max_bytes in total, given at construction; past it every allocation answers NULL.
 * Memory:  the first block lives as long as the arena and serves the next call after arena_reset,
 *          so a small call costs no trip to the allocator. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct arena_block;

struct arena {
    uint8_t *at;
    uint8_t *end;
    struct arena_block *blocks; /* newest first; the last one is the first block */
    size_t used_bytes;          /* handed to blocks beyond the first */
    size_t max_bytes;
};

/* first_bytes is allocated now. -ENOMEM. */
MUST_USE int arena_init(struct arena *a, size_t first_bytes, size_t max_bytes);
void arena_done(struct arena *a);
void arena_reset(struct arena *a);

/* Aligned for any type, not zeroed. NULL when the cap or the machine's memory is reached. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
/* A copy with a NUL after it. */
char *arena_copy(struct arena *a, const void *bytes, size_t n);
