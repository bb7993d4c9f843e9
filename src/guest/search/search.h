/* search — the requests grep and glob. They run in the guest, so that no image needs an interpreter.
 *
 * grep.c searches a tree, scan.c the lines of one file; glob.c searches paths.
 * Bounds: search.entries names, SEARCH_ITEMS_MAX bytes of matches, and grep.time or glob.time. `truncated` in
 *         the reply names the bound that ended the search. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/walk.h"
#include "guest/jobs.h"
#include "guest/link.h"

#define SEARCH_MATCHES_MAX 10000
/* Bytes of matches in a reply, beside the envelope and the counts. */
#define SEARCH_ITEMS_MAX (LINK_MESSAGE_MAX - 1024)

/* What ended the search: the end of the tree, or a bound on matches, bytes, or work (names and time). */
enum search_end { SEARCH_ALL, SEARCH_MATCHES, SEARCH_SIZE, SEARCH_WORK };

struct request;

int grep_method(struct request *r, struct err *e);
int glob_method(struct request *r, struct err *e);

/* Writes `matches` from items that are JSON already, and `truncated`. */
void search_put(struct json_out *o, const struct buf *items, enum search_end end);
/* Sets the bounds of a walk; its time starts now. */
void search_bound(struct walk *w, enum limit_id time);
