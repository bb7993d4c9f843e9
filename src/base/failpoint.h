/* failpoint — points in the code where a test can kill the daemon, to simulate a crash.
 *
 * With BERM_FAILPOINT=NAME[:N] in the environment, the process kills itself with SIGKILL when it
 * passes NAME for the N-th time. Otherwise a failpoint costs one comparison. failpoints.def lists
 * the names. */
#pragma once

enum failpoint_id {
#define FAILPOINT(id, name) FAIL_##id,
#include "base/failpoints.def"
#undef FAILPOINT
    FAILPOINT_COUNT
};

/* Reads the environment. Call it once, before threads start. Returns false when BERM_FAILPOINT
 * names no failpoint. */
_Bool failpoint_setup(void);
void failpoint(enum failpoint_id id);
/* BERM_FILE_CHUNKS=1: bermd transfers file contents in chunks, as it does with guests that cannot
 * pass descriptors. */
_Bool failpoint_file_chunks(void);
/* BERM_FILE_HOLD=PATH: threads that copy file contents block while PATH exists, to simulate a slow
 * disk. */
void failpoint_file_hold(void);
const char *failpoint_name(enum failpoint_id id);
