/* daemon — bermd from the command line to the last handle closed.
 *
 * Exit status: 0 stopped on request, 1 could not start or broke, 2 wrong usage or configuration,
 * 3 the state folder is held by another daemon. */
#pragma once

#include "api/api.h"

/* `extra` are methods besides the daemon's own, or NULL: what a bench needs and users do not. */
int daemon_main(int argc, char **argv, const struct api_methods *extra);
