/* holes — parts of a block that lie elsewhere: sent from there, or copied in when they cannot stay.
 *
 * Order:   as in the block. What a hole stands for must live until it is sent or filled. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HOLES_MAX 32

struct hole {
    uint8_t *at; /* in the block */
    const uint8_t *bytes;
    size_t n;
};

struct holes {
    struct hole list[HOLES_MAX];
    size_t n;
};

/* Copies in what is missing behind `from`; then there are none. */
static inline void holes_fill(struct holes *h, const uint8_t *from) {
    for (const struct hole *hole = h->list; hole < h->list + h->n; hole++) {
        size_t skip = from > hole->at ? (size_t)(from - hole->at) : 0;
        if (skip < hole->n)
            memcpy(hole->at + skip, hole->bytes + skip, hole->n - skip);
    }
    h->n = 0;
}
