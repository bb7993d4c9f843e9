/* context — what every handler shares; api.user points here. */
#pragma once

#include "api/api.h"
#include "api/request.h"
#include "api/system/system.h"
#include "core/registry/registry.h"

#define CONTEXT_SCRATCH ((size_t)256 * 1024)

struct context {
    struct system_facts facts;
    struct registry *registry; /* NULL in programs that serve no sandboxes */
    struct requests requests;
    uint8_t scratch[2][CONTEXT_SCRATCH]; /* for as long as a handler takes to pack a message */
    const uid_t *admins;                 /* besides root */
    size_t n_admins;
};

static inline struct context *context_of(const struct call *c) {
    return c->api->user;
}
/* False, and the call is finished, where no sandboxes are served. */
MUST_USE bool context_serves(struct call *c);
/* Who makes this call. */
void context_caller(const struct call *c, struct caller *ret_caller);
