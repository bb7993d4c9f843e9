/* subject — the sandbox or exec that a call names: find it for its caller, and name it in
 * errors. */
#pragma once

#include "api/context.h"
#include "core/exec/exec.h"
#include "core/sandbox/sandbox.h"

/* INVALID_ARGUMENT for `field`; SANDBOX_DELETED while the history of the deleted sandbox is kept;
 * SANDBOX_NOT_FOUND. */
MUST_USE int subject_find_sandbox(const struct call *c, const char *id, const char *field,
                                  struct sandbox **ret_sb, struct err *e);
/* INVALID_ARGUMENT for `field`; EXEC_NOT_FOUND. */
MUST_USE int subject_find_exec(const struct call *c, const char *id, const char *field,
                               struct exec **ret_x, struct err *e);
/* A copy of `e` that names the exec. A STDIN_OFFSET error also gets the next offset; `ask` may be
 * NULL. */
struct err subject_exec_error(const struct err *e, const char *exec_id, const struct exec_ask *ask);
