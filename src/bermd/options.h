/* options — bermd's command line. Reads the configuration files first; other options override
 * them. */
#pragma once

#include <stdbool.h>

#include "bermd/config.h"

enum exit_status { EXIT_STOPPED = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_HELD = 3 };

struct options {
    struct config config;
    bool stop_sandboxes; /* also stop all sandboxes when the daemon stops */
};

/* Returns the exit status if the program must end now, or -1 to continue. */
int options_parse(struct options *o, int argc, char **argv);
