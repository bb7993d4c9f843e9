/* arena — the memory of one call, freed all at once.
 *
 * Bounds:  max_bytes in total, set by arena_init. Allocations past the bound return NULL.
 * Memory:  the first block lives as long as the arena. arena_reset keeps it for the next call, so
 *          a small call does not reach malloc. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct arena_block;

struct arena {
    uint8_t *at;
    uint8_t *end;
    struct arena_block *blocks; /* newest first; the last element is the first block */
    size_t used_bytes;          /* total size of all blocks except the first */
    size_t max_bytes;
};

/* Allocates first_bytes now. Fails with -ENOMEM. */
MUST_USE int arena_init(struct arena *a, size_t first_bytes, size_t max_bytes);
void arena_done(struct arena *a);
void arena_reset(struct arena *a);

/* Returns memory aligned for any type, not zeroed. Returns NULL when max_bytes is reached or malloc
 * fails. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
/* Copies n bytes and appends a NUL. */
char *arena_copy(struct arena *a, const void *bytes, size_t n);
