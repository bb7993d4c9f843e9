/* state — the daemon's state directory: its lock, its instance id and its token.
 *
 * The lock is a kernel lock, which ends with the process. The text of the lock file only names the
 * process that holds the lock. */
#pragma once

#include "api/api.h"
#include "base/err.h"

#define STATE_ID_CHARS 32

struct state {
    int dir_fd;
    int lock_fd;
    char instance_id[STATE_ID_CHARS + 1]; /* created once per directory */
    char run_id[STATE_ID_CHARS + 1];      /* created at each start */
    bool host_was_rebooted; /* the host rebooted since the last start with this directory */
};

/* Fails with LIMIT_REACHED, naming the process, when another daemon uses the directory. */
MUST_USE int state_open(struct state *s, const char *path, struct err *e);
void state_close(struct state *s);
/* Returns the token of TCP callers, and creates it on first use. Refuses a token file that others
 * can read. */
MUST_USE int state_token(const struct state *s, char ret_token[API_TOKEN_CHARS + 1], struct err *e);
/* Creates the parent directories of a file, like `mkdir -p`. */
MUST_USE int state_make_parents(const char *path, mode_t mode, struct err *e);
