/* state — the daemon's folder: held by one daemon at a time, named once, with the token in it.
 *
 * The lock is the kernel's and goes with the process, however it ends; the file's text only says who
 * holds it. */
#pragma once

#include "api/api.h"
#include "base/err.h"

#define STATE_ID_CHARS 32

struct state {
    int dir_fd;
    int lock_fd;
    char instance_id[STATE_ID_CHARS + 1]; /* made once for the folder */
    char run_id[STATE_ID_CHARS + 1];      /* made at each start */
    bool host_was_rebooted;               /* since the last daemon on this folder */
};

/* LIMIT_REACHED names the process that holds the folder. */
MUST_USE int state_open(struct state *s, const char *path, struct err *e);
void state_close(struct state *s);
/* The token of TCP callers, made on first use. One that others may read is refused. */
MUST_USE int state_token(const struct state *s, char ret_token[API_TOKEN_CHARS + 1], struct err *e);
/* `mkdir -p` for the folder a file is in. */
MUST_USE int state_make_parents(const char *path, mode_t mode, struct err *e);
