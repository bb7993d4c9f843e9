/* context — the objects that all handlers share; api.user points to it. */
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
    uint8_t scratch[2][CONTEXT_SCRATCH]; /* used only while a handler packs a message */
    const uid_t *admins;                 /* uids of administrators besides root */
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
/* Returns false, and finishes the call, if this program serves no sandboxes. */
MUST_USE bool context_serves(struct call *c);
/* Returns the caller of this call. */
void context_caller(const struct call *c, struct caller *ret_caller);
