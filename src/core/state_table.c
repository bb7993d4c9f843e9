#include "core/state_table.h"

#include <stdlib.h>

#include "base/log.h"

bool state_may_follow(const struct state_table *t, unsigned from, unsigned to) {
    return from < t->n_states && to < t->n_states && (from == to || t->next[from] & STATE_BIT(to));
}

unsigned state_change(const struct state_table *t, const char *id, unsigned from, unsigned to) {
    if (!state_may_follow(t, from, to)) {
        log_text(LOG_ERROR, t->what, "%s: illegal transition from %u to %u", id, from, to);
        abort();
    }
    if (from != to && log_is_on(LOG_DEBUG))
        log_text(LOG_DEBUG, t->what, "%s: %s -> %s", id, t->names[from], t->names[to]);
    return to;
}
