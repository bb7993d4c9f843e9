/* plain — instances without isolation: the real guest as an ordinary process. For tests alone; bermd does not link it.
 *
 * Owner:   the daemon.                Ends: driver_close, then on_closed from the loop.
 * Needs:   no root, no namespaces, no cgroups. It has none of the capability tables.
 * Files:   DIR/ID is the working directory of the guest and of its programs; DIR/ID.sock is the control socket, by
 *          which a new daemon adopts the guest.
 * Differs: a program may outlive a guest that somebody else killed. stop and discard end the whole tree.
 * Bounds:  discard waits at most a second for a guest to end, on the loop. */
#pragma once

#include "core/driver.h"

struct plain_spec {
    uv_loop_t *loop;
    int dir_fd;         /* taken over */
    const char *guest;  /* path of berm-guest */
    bool is_bytes_only; /* the link passes no descriptors */
    void (*on_open)(struct driver *d, const struct err *e);
    void *user;
};

struct driver *plain_open(const struct plain_spec *spec, struct err *e);
