/* spec_check — checks a SandboxSpec and fills in every default.
 *
 * Errors: INVALID_ARGUMENT for a malformed field, UNSUPPORTED for what the driver cannot do; both
 *         name the field.
 * The result borrows from the request; new parts are in the arena. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/limits.h"
#include "berm/v1/berm.pb-c.h"
#include "core/driver.h"

struct spec_rules {
    const struct limits *limits;
    const struct driver *driver; /* NULL: no driver is available */
    const char *no_driver;       /* the reason why `driver` is NULL, as text for people */
};

/* Checks a spec. If `asked` is NULL, all fields get defaults. DRIVER_UNAVAILABLE is checked last,
 * after errors of the request. */
MUST_USE int spec_check(const struct spec_rules *rules, const Berm__V1__SandboxSpec *asked,
                        struct arena *arena, Berm__V1__SandboxSpec **ret_spec, struct err *e);

#define SPEC_PARTS 4

/* Applies the request to `old`. ret_parts gets the names of the parts that the request contains. */
MUST_USE int spec_check_update(const struct spec_rules *rules, const Berm__V1__SandboxSpec *old,
                               const Berm__V1__UpdateSandboxRequest *asked, struct arena *arena,
                               Berm__V1__SandboxSpec **ret_spec, const char *ret_parts[SPEC_PARTS],
                               size_t *ret_n_parts, struct err *e);
