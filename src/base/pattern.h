/* pattern — the globs of the contract: * ? [a] [!a] {a,b}, and ** for any directories.
 *
 * Match:  a path relative to where the search begins, without a leading slash. A pattern without "/" is for
 *         the last name; a leading "/" only anchors. `*`, `?` and `[...]` match no "/" and, at the beginning
 *         of a name, no "."; `**` passes no directory whose name begins with ".".
 * Text:   characters are UTF-8, and bytes that are not count as one each. A backslash is a character like any
 *         other; brackets and braces that do not close are too.
 * Bounds: PATTERN_MAX bytes, PATTERN_DEPTH braces in one another; time is the product of pattern and path,
 *         memory of the pattern alone. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define PATTERN_MAX 4096
#define PATTERN_DEPTH 16

struct pattern;

/* What a pattern without "/" is held against. */
enum pattern_bare {
    PATTERN_VISIBLE, /* the last name, below directories that are not hidden: as after a "**" and "/" */
    PATTERN_ANY,     /* the last name, wherever it is */
};

/* In the arena. INVALID_ARGUMENT with `field`, LIMIT_REACHED. */
MUST_USE int pattern_new(struct arena *a, struct str text, enum pattern_bare bare,
                         const char *field, struct pattern **ret, struct err *e);
bool pattern_matches(struct pattern *p, const char *path);
/* Whether something below this directory could match. */
bool pattern_leads_into(struct pattern *p, const char *dir);
