/* daemon — the life of bermd, from the command line to the last closed handle.
 *
 * Exit status: 0 stopped on request; 1 failed to start or failed later; 2 invalid usage or
 * configuration; 3 another daemon uses the state directory. */
#pragma once

#include "api/api.h"

/* `extra` adds methods to the daemon's own, for benchmarks; NULL for none. */
int daemon_main(int argc, char **argv, const struct api_methods *extra);
