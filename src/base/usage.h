/* usage — what every helper program answers when it is asked about itself. */
#pragma once

#include <stdbool.h>

/* `usage` begins with "usage: NAME ". --help and --version, alone on the command line, are answered on standard
 * output; true: so it was. */
bool usage_answered(int argc, char **argv, const char *usage);
