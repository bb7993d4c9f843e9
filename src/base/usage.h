/* usage — the --help and --version options of every helper program. */
#pragma once

#include <stdbool.h>

/* Prints the help or version and returns true if the command line is --help or --version alone.
 * `usage` must start with "usage: NAME ". */
bool usage_answered(int argc, char **argv, const char *usage);
