/* spec_check — what a sandbox should be, checked and with every default filled in.
 *
 * What no driver can give is UNSUPPORTED and named; what is malformed is INVALID_ARGUMENT; both before
 * anything is begun. The answer borrows from what was asked and lives in the arena. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "berm/v1/berm.pb-c.h"
#include "core/driver.h"

struct spec_rules {
    const struct limits *limits;
    const struct driver *driver; /* NULL: there is none */
    const char *no_driver;       /* why, for people */
};

/* `asked` may be NULL: all defaults. DRIVER_UNAVAILABLE comes last, so a wrong request hears of that. */
MUST_USE int spec_check(const struct spec_rules *rules, const Berm__V1__SandboxSpec *asked,
                        struct arena *arena, Berm__V1__SandboxSpec **ret_spec, struct err *e);

#define SPEC_PARTS 4

/* `old` with the request's changes applied. The parts that were given, by name, go to ret_parts. */
MUST_USE int spec_check_update(const struct spec_rules *rules, const Berm__V1__SandboxSpec *old,
                               const Berm__V1__UpdateSandboxRequest *asked, struct arena *arena,
                               Berm__V1__SandboxSpec **ret_spec, const char *ret_parts[SPEC_PARTS],
                               size_t *ret_n_parts, struct err *e);
