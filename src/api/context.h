/* context — what every handler shares; api.user points here. */
#pragma once

#include "api/api.h"
#include "api/mutation.h"
#include "api/system/system.h"
#include "core/registry/registry.h"

#define CONTEXT_SCRATCH ((size_t)256 * 1024)

struct context {
    struct system_facts facts;
    struct registry *registry; /* NULL in programs that serve no sandboxes */
    struct mutations mutations;
    uint8_t scratch[2][CONTEXT_SCRATCH]; /* for as long as a handler takes to pack a message */
    const uid_t *admins;                 /* besides root */
    size_t n_admins;
};

static inline struct context *context_of(const struct call *c) {
    return c->api->user;
}
static inline struct registry *context_registry(const struct call *c) {
    return context_of(c)->registry;
}
static inline struct ledger *context_ledger(const struct call *c) {
    return registry_ledger(context_registry(c));
}
static inline struct deadlines *context_deadlines(const struct call *c) {
    return registry_deadlines(context_registry(c));
}
static inline int64_t context_limit(const struct call *c, enum limit_id id) {
    return registry_limits(context_registry(c))->of[id];
}
/* False, and the call is finished, where no sandboxes are served. */
MUST_USE bool context_serves(struct call *c);
/* Who makes this call. */
void context_caller(const struct call *c, struct caller *ret_caller);
