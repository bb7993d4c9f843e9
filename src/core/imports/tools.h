/* tools — the table of tools that a sandbox can import by name, from tools.def. A row has the
 * directories to search, the required profile, and the credentials and caches below the caller's
 * home. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOOL_FILES_MAX 4
#define TOOL_CACHES_MAX 2
#define TOOL_HOMES_MAX 6
#define TOOL_TREES_MAX 2 /* maximum per home */
#define TOOLS_MAX 16

enum tool_need { TOOL_PLAIN, TOOL_ROOT /* requires profile root */ };

struct tool_home {
    const char *trees[TOOL_TREES_MAX]; /* the program's directory, and a second one or NULL */
};

struct tool {
    const char *name;
    enum tool_need need;
    struct tool_home homes[TOOL_HOMES_MAX]; /* the list ends with a home without trees */
    const char *files[TOOL_FILES_MAX];   /* credentials, below the caller's home; ends with NULL */
    const char *caches[TOOL_CACHES_MAX]; /* directories, below the caller's home; ends with NULL */
};

/* These two return NULL if there is no such tool. */
const struct tool *tool_named(const char *name);
const struct tool *tool_at(size_t i);
/* Returns whether every sandbox that uses the host's root has the program, for any caller. */
bool tool_is_on_host(const struct tool *t);
