/* native — instances from the bare kernel, made by berm-spawn.
 *
 * Owner:   the registry.              Ends: driver_close, then on_closed from the loop.
 * The driver speaks src/spawn/request.h on a SEQPACKET socket and holds no privilege of its own. The
 * control socket of each guest is bound in the run directory and has no path inside the sandbox.
 * Bounds:  one outstanding request costs its message; a request that berm-spawn does not take at once
 *          waits in order. When berm-spawn goes away, every waiting request fails with
 *          DRIVER_UNAVAILABLE and the instances live on. */
#pragma once

#include "core/driver.h"

/* Takes over both descriptors: the socket to berm-spawn, and the directory for control sockets. The
 * driver can make instances once on_open has come without an error. -ENOMEM and the like as an error. */
struct driver *native_open(uv_loop_t *loop, int spawn_fd, int run_dir_fd,
                           void (*on_open)(struct driver *d, const struct err *e), void *user,
                           struct err *e);
