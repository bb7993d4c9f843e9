/* state_walk — checks of a state_table that every object with states shares. */
#pragma once

#include <stddef.h>

#include "core/state_table.h"

struct state_pair {
    unsigned from, to;
};

/* The table allows exactly these transitions: `set` makes each of them, and aborts on every other pair. */
void state_walk(const struct state_table *t, const struct state_pair *legal, size_t n_legal,
                void (*set)(unsigned from, unsigned to));
