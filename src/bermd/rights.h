/* rights — what the daemon does while it is root: it starts berm-spawn and berm-open, hands over
 * the state directory, and switches to an unprivileged user. */
#pragma once

#include "base/err.h"
#include "bermd/config.h"
#include "bermd/state.h"

struct rights {
    bool is_root; /* bermd starts berm-spawn only as root */
    uid_t uid;
    gid_t gid;
    int spawn_fd; /* SEQPACKET socket to berm-spawn; -1: none */
    int open_fd;  /* SEQPACKET socket to berm-open; -1: host paths cannot be used */
    int run_dir_fd;
    int sandboxes_fd;
};

/* Creates the directories of the state and, as root, starts the helpers. */
MUST_USE int rights_open(struct rights *r, const struct config *c, const struct state *s,
                         struct err *e);
/* Drops all privileges. Nothing privileged can be opened afterwards. */
MUST_USE int rights_drop(struct rights *r, const struct state *s, struct err *e);
void rights_close(struct rights *r);

/* Sets `out` to the path of a program: `given`, or, if that is empty, `name` in our own
 * directory. */
void rights_find_program(const char *name, const char *given, char *out, size_t cap);
