#include "api/context.h"

#include <stdio.h>

void context_caller(const struct call *c, struct caller *ret_caller) {
    const struct context *context = context_of(c);
    *ret_caller = (struct caller){.identity = "token:default"};
    if (!c->peer->is_unix)
        return;
    snprintf(ret_caller->identity, sizeof ret_caller->identity, "uid:%u", (unsigned)c->peer->uid);
    ret_caller->is_admin = c->peer->uid == 0;
    for (size_t i = 0; i < context->n_admins; i++)
        ret_caller->is_admin = ret_caller->is_admin || context->admins[i] == c->peer->uid;
}

bool context_serves(struct call *c) {
    struct err e;
    if (context_registry(c))
        return true;
    err_set(&e, ERR_UNSUPPORTED, "this server has no sandboxes");
    call_finish(c, &e);
    return false;
}
