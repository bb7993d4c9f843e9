/* search — Grep and Glob: work done inside, so that no image needs an interpreter. grep.c has the search,
 * scan.c one file's lines, glob.c the paths; walk.c and pattern.c serve both.
 *
 * Bounds: SEARCH_ENTRIES names looked at, SEARCH_ITEMS_MAX bytes of matches, a time for each. What was met
 * first is told as `truncated`. */
#pragma once

#include "base/limits.h"
#include "guest/files/files.h"
#include "guest/path.h"
#include "base/walk.h"

#define SEARCH_MATCHES_MAX 10000
/* What an answer has room for beside the envelope and the counts. */
#define SEARCH_ITEMS_MAX (LINK_MESSAGE_MAX - 1024)

enum search_end { SEARCH_ALL, SEARCH_MATCHES, SEARCH_SIZE, SEARCH_WORK };

int search_method_grep(struct request *r, struct err *e);
int search_method_glob(struct request *r, struct err *e);

/* Writes "matches" from items that are JSON already, and "truncated". */
void search_put(struct json_out *o, const struct buf *items, enum search_end end);
/* Begins a search's clock and bounds in a walk. */
void search_bound(struct walk *w, enum limit_id time);
