/* map — objects by their text key; a node sits inside the object it finds.
 *
 * Keys are borrowed from the object and must not change while it is in. Grows by doubling; a failure to
 * grow only makes chains longer, so adding cannot fail once the map is made. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct map_node {
    struct map_node *next;
    const char *key; /* NULL: in no map */
    uint64_t hash;
};

struct map {
    struct map_node **slots;
    size_t n_slots; /* a power of two */
    size_t count;
    uint64_t seed; /* drawn at random: callers choose the keys */
};

MUST_USE int map_init(struct map *m);
void map_done(struct map *m);

/* The key must not be in the map yet. */
void map_add(struct map *m, struct map_node *node, const char *key);
/* Safe to call for a node that is in no map. */
void map_remove(struct map *m, struct map_node *node);
struct map_node *map_find(const struct map *m, const char *key);
