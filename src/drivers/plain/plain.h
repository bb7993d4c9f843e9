/* plain — the driver without isolation: it runs the real guest as an ordinary process. Only tests
 * link it, not bermd.
 *
 * Owner:   the daemon.                End: driver_close, then on_closed from the loop.
 * Needs:   no root, no namespaces, no cgroups. The driver has no optional capability.
 * Files:   DIR/ID is the working directory of the guest and of its programs; DIR/ID.sock is the
 *          control socket, through which a new daemon adopts the guest.
 * Differs: a program may outlive its guest if something else kills the guest. stop and discard kill
 *          the whole tree.
 * Bounds:  discard blocks the loop for at most a second, until the guest has exited. */
#pragma once

#include "core/driver.h"

struct plain_spec {
    uv_loop_t *loop;
    int dir_fd;         /* the driver takes ownership */
    const char *guest;  /* path of berm-guest */
    bool is_bytes_only; /* the link cannot pass descriptors */
    void (*on_open)(struct driver *d, const struct err *e);
    void *user;
};

struct driver *plain_open(const struct plain_spec *spec, struct err *e);
