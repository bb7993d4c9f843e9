/* state_walk — checks of a state_table, shared by every object with states. */
#pragma once

#include <stddef.h>

#include "core/state_table.h"

struct state_pair {
    unsigned from, to;
};

/* Checks that the table allows exactly these transitions: `set` makes each of them and aborts on
 * all other pairs. */
void state_walk(const struct state_table *t, const struct state_pair *legal, size_t n_legal,
                void (*set)(unsigned from, unsigned to));
