/* holes — parts of a block that lie elsewhere: sent from there, or copied in when they cannot stay.
 *
 * Order:   as in the block. What a part stands for must live until it is sent or filled. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GATHER_MAX 32

struct gather_part {
    uint8_t *at; /* in the block */
    const uint8_t *bytes;
    size_t n;
};

struct gather_list {
    struct gather_part list[GATHER_MAX];
    size_t n;
};

/* Copies in what is missing behind `from`; then there are none. */
static inline void gather_copy(struct gather_list *h, const uint8_t *from) {
    for (const struct gather_part *part = h->list; part < h->list + h->n; part++) {
        size_t skip = from > part->at ? (size_t)(from - part->at) : 0;
        if (skip < part->n)
            memcpy(part->at + skip, part->bytes + skip, part->n - skip);
    }
    h->n = 0;
}
