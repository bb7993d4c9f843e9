/* failpoint — places where a test may end the daemon, as if its machine had taken it.
 *
 * BERM_FAILPOINT=NAME[:N] in the environment ends the process with SIGKILL when NAME is passed for the
 * N-th time. Without it a failpoint costs one comparison. The names are failpoints.def's. */
#pragma once

enum failpoint_id {
#define FAILPOINT(id, name) FAIL_##id,
#include "base/failpoints.def"
#undef FAILPOINT
    FAILPOINT_COUNT
};

/* Reads the environment; call it once, before threads. Answers false when it names no failpoint. */
_Bool failpoint_setup(void);
void failpoint(enum failpoint_id id);
const char *failpoint_name(enum failpoint_id id);
