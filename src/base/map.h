/* map — a hash map from a text key to an object. The node is a field of the object.
 *
 * The map borrows the key from the object; the key must not change while the object is in the map.
 * The table doubles as needed. When memory for a larger table is missing, the chains get longer
 * instead, so map_add cannot fail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

struct map_node {
    struct map_node *next;
    const char *key; /* NULL if the node is in no map */
    uint64_t hash;
};

struct map {
    struct map_node **slots;
    size_t n_slots; /* a power of two */
    size_t count;
    uint64_t seed; /* random, so that clients cannot choose keys that collide */
};

MUST_USE int map_init(struct map *m);
void map_done(struct map *m);

/* The map must not contain the key yet. */
void map_add(struct map *m, struct map_node *node, const char *key);
/* Does nothing for a node that is in no map. */
void map_remove(struct map *m, struct map_node *node);
struct map_node *map_find(const struct map *m, const char *key);
