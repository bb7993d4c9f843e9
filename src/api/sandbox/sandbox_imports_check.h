/* imports_check — checks the text of mounts, copies and tools of a spec. core/imports/imports.h
 * opens the paths with the owner's rights. Errors: INVALID_ARGUMENT, UNSUPPORTED,
 * HOST_PATH_REFUSED, each with its field. */
#pragma once

#include "base/err.h"
#include "berm/v1/berm.pb-c.h"

MUST_USE int imports_check(const Berm__V1__SandboxSpec *s, struct err *e);
