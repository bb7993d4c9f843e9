#include "base/arena.h"

#include <errno.h>
#include <string.h>

#define ALIGNMENT 16
#define BLOCK_BYTES ((size_t)16 * 1024)

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(ALIGNMENT) uint8_t bytes[];
};

static struct arena_block *arena_block_new(size_t size, struct arena_block *next) {
    struct arena_block *b = malloc(sizeof *b + size);
    if (b) {
        b->next = next;
        b->size = size;
    }
    return b;
}

int arena_init(struct arena *a, size_t first_bytes, size_t max_bytes) {
    struct arena_block *first = arena_block_new(first_bytes, NULL);
    if (!first)
        return -ENOMEM;
    *a = (struct arena){.blocks = first, .max_bytes = max_bytes};
    arena_reset(a);
    return 0;
}

void arena_done(struct arena *a) {
    for (struct arena_block *b = a->blocks; b;) {
        struct arena_block *next = b->next;
        free(b);
        b = next;
    }
    *a = (struct arena){0};
}

void arena_reset(struct arena *a) {
    while (a->blocks->next) {
        struct arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
    a->used_bytes = 0;
    a->at = a->blocks->bytes;
    a->end = a->at + a->blocks->size;
}

static void *arena_alloc_slow(struct arena *a, size_t n) {
    size_t size = MAX(n, BLOCK_BYTES);
    if (n > a->max_bytes || a->used_bytes > a->max_bytes - n)
        return NULL;
    struct arena_block *b = arena_block_new(size, a->blocks);
    if (!b)
        return NULL;
    a->blocks = b;
    a->used_bytes += size;
    a->at = b->bytes + n;
    a->end = b->bytes + size;
    return b->bytes;
}

void *arena_alloc(struct arena *a, size_t n) {
    if (n > SIZE_MAX - ALIGNMENT)
        return NULL;
    n = (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (n > (size_t)(a->end - a->at))
        return arena_alloc_slow(a, n);
    void *p = a->at;
    a->at += n;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n) {
    void *p = arena_alloc(a, n);
    if (p)
        memset(p, 0, n);
    return p;
}

char *arena_copy(struct arena *a, const void *bytes, size_t n) {
    char *p = arena_alloc(a, n + 1);
    if (p) {
        memcpy(p, bytes, n);
        p[n] = '\0';
    }
    return p;
}
