/* state_table — the legal transitions of one state enum.
 *
 * An object has one setter per enum, and the setter calls state_change. An illegal transition is a
 * programming error: it aborts. A legal one is logged at debug level. Setting the present state
 * again is always legal and does nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define STATE_BIT(state) (UINT32_C(1) << (state))

struct state_table {
    const char *what;         /* name in the log, such as "sandbox_goal" */
    const char *const *names; /* indexed by state */
    const uint32_t *next;     /* indexed by state: STATE_BIT of each state that may follow */
    unsigned n_states;        /* at most 32 */
};

bool state_may_follow(const struct state_table *t, unsigned from, unsigned to);
/* Returns `to`. `id` names the object in the log. */
unsigned state_change(const struct state_table *t, const char *id, unsigned from, unsigned to);
