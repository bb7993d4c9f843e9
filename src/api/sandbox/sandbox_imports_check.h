/* imports_check — mounts, copies and tools of a spec by their spelling; what their paths lead to is looked at
 * by core/imports/imports.h, with the owner's rights. INVALID_ARGUMENT, UNSUPPORTED, each with its field. */
#pragma once

#include "base/err.h"
#include "berm/v1/berm.pb-c.h"

MUST_USE int check_imports(const Berm__V1__SandboxSpec *s, struct err *e);
