/* gather — a list of the parts of a block that are stored elsewhere in memory. The sender writes
 * each part from there, or copies it into the block when the memory cannot stay valid.
 *
 * The parts are in the order of the block. The memory of a part must stay valid until the part is
 * sent or copied. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GATHER_MAX 32

struct gather_part {
    uint8_t *at; /* position in the block */
    const uint8_t *bytes;
    size_t n;
};

struct gather_list {
    struct gather_part list[GATHER_MAX];
    size_t n;
};

/* Copies into the block all parts at or after `from`, then empties the list. */
static inline void gather_copy(struct gather_list *h, const uint8_t *from) {
    for (const struct gather_part *part = h->list; part < h->list + h->n; part++) {
        size_t skip = from > part->at ? (size_t)(from - part->at) : 0;
        if (skip < part->n)
            memcpy(part->at + skip, part->bytes + skip, part->n - skip);
    }
    h->n = 0;
}
