#include "base/map.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define SLOTS_MIN 64

int map_init(struct map *m) {
    *m = (struct map){.n_slots = SLOTS_MIN, .slots = calloc(SLOTS_MIN, sizeof *m->slots)};
    if (!m->slots)
        return -ENOMEM;
    if (getrandom(&m->seed, sizeof m->seed, 0) != sizeof m->seed)
        m->seed = (uint64_t)(uintptr_t)m->slots;
    return 0;
}

void map_done(struct map *m) {
    free(m->slots);
    *m = (struct map){0};
}

/* FNV-1a with a random seed. The last step mixes the high bits into the low bits. */
static uint64_t map_hash_of(const struct map *m, const char *key) {
    uint64_t h = m->seed ^ UINT64_C(0xcbf29ce484222325);
    for (; *key; key++)
        h = (h ^ (uint8_t)*key) * UINT64_C(0x100000001b3);
    return h ^ (h >> 32);
}

static void map_grow(struct map *m) {
    size_t n = m->n_slots * 2;
    struct map_node **slots = calloc(n, sizeof *slots);
    if (!slots)
        return;
    for (size_t i = 0; i < m->n_slots; i++)
        for (struct map_node *node = m->slots[i], *next; node; node = next) {
            next = node->next;
            node->next = slots[node->hash & (n - 1)];
            slots[node->hash & (n - 1)] = node;
        }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
}

void map_add(struct map *m, struct map_node *node, const char *key) {
    if (m->count >= m->n_slots)
        map_grow(m);
    node->key = key;
    node->hash = map_hash_of(m, key);
    struct map_node **slot = &m->slots[node->hash & (m->n_slots - 1)];
    node->next = *slot;
    *slot = node;
    m->count++;
}

void map_remove(struct map *m, struct map_node *node) {
    if (!node->key)
        return;
    struct map_node **at = &m->slots[node->hash & (m->n_slots - 1)];
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->key = NULL;
    m->count--;
}

struct map_node *map_find(const struct map *m, const char *key) {
    uint64_t hash = map_hash_of(m, key);
    for (struct map_node *n = m->slots[hash & (m->n_slots - 1)]; n; n = n->next)
        if (n->hash == hash && strcmp(n->key, key) == 0)
            return n;
    return NULL;
}
