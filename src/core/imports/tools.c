#include "core/imports/tools.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

static const struct tool tools[] = {
#define HOME(bin, other) \
    {                    \
        { bin, other }   \
    }
#define HOMES(...) \
    { __VA_ARGS__ }
#define FILES(...) \
    { __VA_ARGS__ }
#define CACHES(...) \
    { __VA_ARGS__ }
#define TOOL(name, need, homes, files, caches) {#name, need, homes, files, caches},
#include "core/imports/tools.def"
#undef TOOL
#undef CACHES
#undef FILES
#undef HOMES
#undef HOME
};
_Static_assert(COUNT_OF(tools) <= TOOLS_MAX, "TOOLS_MAX");

const struct tool *tool_at(size_t i) {
    return i < COUNT_OF(tools) ? &tools[i] : NULL;
}

const struct tool *tool_named(const char *name) {
    for (size_t i = 0; i < COUNT_OF(tools); i++)
        if (strcmp(tools[i].name, name) == 0)
            return &tools[i];
    return NULL;
}

/* Follows symlinks, because a symlink that leaves /usr is broken in a sandbox. */
bool tool_is_on_host(const struct tool *t) {
    static const char *const dirs[] = {"/usr/local/bin", "/usr/bin"};
    char path[64], real[PATH_MAX];
    for (size_t i = 0; i < COUNT_OF(dirs); i++) {
        snprintf(path, sizeof path, "%s/%s", dirs[i], t->name);
        if (realpath(path, real) && strncmp(real, "/usr/", 5) == 0 && access(real, X_OK) == 0)
            return true;
    }
    return false;
}
