/* pattern — the glob patterns of the API: * ? [a] [!a] {a,b}, and ** for any number of directories.
 *
 * Match:  a path relative to the start of the search, without a leading slash. A pattern without
 *         "/" matches the last name; a leading "/" only anchors. `*`, `?` and `[...]` do not match
 *         "/", nor "." at the start of a name. `**` does not match a directory whose name starts
 *         with ".".
 * Text:   characters are UTF-8. Each byte that is not valid UTF-8 counts as one character. A
 *         backslash is an ordinary character; so are brackets and braces that are not closed.
 * Bounds: PATTERN_MAX bytes, PATTERN_DEPTH nested braces. Time is the product of the lengths of
 *         pattern and path. Memory depends on the pattern alone. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define PATTERN_MAX 4096
#define PATTERN_DEPTH 16

struct pattern;

/* What a pattern without "/" matches. */
enum pattern_bare {
    /* the last name, outside of hidden directories: as if the pattern started with "**" and "/" */
    PATTERN_VISIBLE,
    PATTERN_ANY, /* the last name, in any directory */
};

/* Allocates in the arena. Fails with INVALID_ARGUMENT for `field`, or OUT_OF_MEMORY. */
MUST_USE int pattern_new(struct arena *a, struct str text, enum pattern_bare bare,
                         const char *field, struct pattern **ret, struct err *e);
bool pattern_matches(struct pattern *p, const char *path);
/* Returns whether an entry below this directory could match. */
bool pattern_leads_into(struct pattern *p, const char *dir);
