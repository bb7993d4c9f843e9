/* tools — bundles of programs by name: whether the host has them, what they need, and which files of the
 * caller's home are their credentials. The table is tools.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOOL_FILES_MAX 4
#define TOOLS_MAX 16

enum tool_need { TOOL_PLAIN, TOOL_ROOT /* profile root */ };

struct tool {
    const char *name;
    enum tool_need need;
    const char *files[TOOL_FILES_MAX]; /* below home; NULL ends them */
};

/* NULL: there is none of this name, or, for an index, no more. */
const struct tool *tool_named(const char *name);
const struct tool *tool_at(size_t i);
/* Whether a sandbox on the host's root sees the program. */
bool tool_is_on_host(const struct tool *t);
