/* options — bermd's command line: files first, then what the command line says on top. */
#pragma once

#include <stdbool.h>

#include "bermd/config.h"

enum exit_status { EXIT_STOPPED = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_HELD = 3 };

struct options {
    struct config config;
    bool stop_sandboxes; /* at the daemon's end */
};

/* The exit status when there is nothing to run, -1 to go on. */
int options_parse(struct options *o, int argc, char **argv);
