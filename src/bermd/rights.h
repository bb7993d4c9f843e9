/* rights — what the daemon does while it still is root: start berm-spawn and berm-open, hand the state folder over,
 * and become somebody who may do nothing else. */
#pragma once

#include "base/err.h"
#include "bermd/config.h"
#include "bermd/state.h"

struct rights {
    bool is_root; /* only then is there a berm-spawn */
    uid_t uid;
    gid_t gid;
    int spawn_fd; /* SEQPACKET, to berm-spawn; -1 = there is none */
    int open_fd;  /* SEQPACKET, to berm-open; -1 = no host path goes in */
    int run_dir_fd;
    int sandboxes_fd;
};

/* Makes the folders of the state and, as root, starts berm-spawn. */
MUST_USE int rights_open(struct rights *r, const struct config *c, const struct state *s,
                         struct err *e);
/* Gives up everything that being root allowed. Nothing privileged may be opened afterwards. */
MUST_USE int rights_drop(struct rights *r, const struct state *s, struct err *e);
void rights_close(struct rights *r);
