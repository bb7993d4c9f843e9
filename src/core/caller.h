/* caller — the identity behind a call, and whether it may use the objects of all owners. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define CALLER_IDENTITY_MAX 80 /* with the NUL: "uid:N" or "token:NAME" */

struct caller {
    char identity[CALLER_IDENTITY_MAX];
    bool is_admin;
};

static inline bool caller_owns(const struct caller *c, const char *owner) {
    return c->is_admin || strcmp(c->identity, owner) == 0;
}
