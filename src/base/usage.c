#include "base/usage.h"

#include <stdio.h>
#include <string.h>

bool usage_answered(int argc, char **argv, const char *usage) {
    if (argc != 2)
        return false;
    const char *name = usage + strlen("usage: ");
    if (strcmp(argv[1], "--help") == 0)
        fputs(usage, stdout);
    else if (strcmp(argv[1], "--version") == 0)
        printf("%.*s %s\n", (int)strcspn(name, " "), name, BERM_VERSION);
    else
        return false;
    return true;
}
