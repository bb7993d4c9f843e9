/* native — the driver whose instances are namespaces and cgroups of the host kernel. berm-spawn
 * creates them.
 *
 * Owner:   the daemon.                End: driver_close, then on_closed from the loop.
 * Process: the driver sends the requests of src/spawn/request.h over a SEQPACKET socket and has no
 *          privilege itself. It binds the control socket of each guest in the run directory; the
 *          socket has no path inside the sandbox.
 * Restart: native_adopt finds a guest by the name of its control socket.
 * Bounds:  one message per pending request. Requests that the socket does not accept yet wait in
 *          order.
 * Errors:  PLACE_FAILED, UNSUPPORTED, SANDBOX_EXISTS, STORE_FULL, GUEST_LOST. When berm-spawn
 *          exits, every pending request fails with DRIVER_UNAVAILABLE, and the instances keep
 *          running. */
#pragma once

#include "core/driver.h"

/* Takes ownership of both descriptors: the socket to berm-spawn, and the run directory for control
 * sockets. The driver can create instances after on_open reports no error. Returns NULL and sets an
 * error when memory or descriptors run out. */
struct driver *native_open(uv_loop_t *loop, int spawn_fd, int run_dir_fd,
                           void (*on_open)(struct driver *d, const struct err *e), void *user,
                           struct err *e);
