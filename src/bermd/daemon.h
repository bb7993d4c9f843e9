/* daemon — the life of bermd, from the command line to the last closed handle.
 *
 * Exit status: 0 stopped on request; 1 failed to start or failed later; 2 invalid usage or
 * configuration; 3 another daemon uses the state directory. */
#pragma once

#include "api/api.h"
#include "core/driver.h"

/* Hooks for benchmarks and tests. Each member may be NULL. */
struct daemon_extra {
    const struct api_methods *methods;
    /* Opens one more driver. `guest` is the path of berm-guest. The loop calls on_open with `user`
     * later. */
    struct driver *(*open_driver)(uv_loop_t *loop, int state_dir_fd, const char *guest,
                                  void (*on_open)(struct driver *d, const struct err *e),
                                  void *user, struct err *e);
};

/* `extra` may be NULL. */
int daemon_main(int argc, char **argv, const struct daemon_extra *extra);
