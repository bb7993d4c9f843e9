/* tools — bundles of programs by name: where they may be, what they need, and which files of the caller's home are
 * their credentials and their caches. The table is tools.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TOOL_FILES_MAX 4
#define TOOL_CACHES_MAX 2
#define TOOL_HOMES_MAX 6
#define TOOL_TREES_MAX 2 /* of one home */
#define TOOLS_MAX 16

enum tool_need { TOOL_PLAIN, TOOL_ROOT /* profile root */ };

struct tool_home {
    const char *trees[TOOL_TREES_MAX]; /* the program's directory, and another or NULL */
};

struct tool {
    const char *name;
    enum tool_need need;
    struct tool_home homes[TOOL_HOMES_MAX]; /* one without trees ends them */
    const char *files[TOOL_FILES_MAX];      /* below home; NULL ends them */
    const char *caches[TOOL_CACHES_MAX];    /* directories, as above */
};

/* NULL: there is none of this name, or, for an index, no more. */
const struct tool *tool_named(const char *name);
const struct tool *tool_at(size_t i);
/* Whether a sandbox on the host's root sees the program, whoever asks. */
bool tool_is_on_host(const struct tool *t);
