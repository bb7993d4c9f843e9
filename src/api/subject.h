/* subject — the sandbox or exec that a call names: find it for its caller, and name it in
 * errors. */
#pragma once

#include "api/context.h"
#include "core/exec/exec.h"
#include "core/sandbox/sandbox.h"

/* Finds a sandbox. Fails with INVALID_ARGUMENT for `field`, with SANDBOX_DELETED while the history
 * of the deleted sandbox is kept, or with SANDBOX_NOT_FOUND. */
MUST_USE int subject_find_sandbox(const struct call *c, const char *id, const char *field,
                                  struct sandbox **ret_sb, struct err *e);
/* Finds an exec. Fails with INVALID_ARGUMENT for `field`, or with EXEC_NOT_FOUND. */
MUST_USE int subject_find_exec(const struct call *c, const char *id, const char *field,
                               struct exec **ret_x, struct err *e);
/* Returns a copy of `e` that names the exec. A STDIN_OFFSET error also gets the next offset of
 * `ask`, which may be NULL. */
struct err subject_exec_error(const struct err *e, const char *exec_id, const struct exec_ask *ask);
