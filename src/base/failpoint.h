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
/* BERM_FILE_CHUNKS=1: contents of files travel in chunks, as from guests that can pass no descriptor. */
_Bool failpoint_file_chunks(void);
/* BERM_FILE_HOLD=PATH: threads that move bytes of files wait for as long as PATH is there, as for a disk. */
void failpoint_file_hold(void);
const char *failpoint_name(enum failpoint_id id);
