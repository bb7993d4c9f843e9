/* tool_search — where one tool lives for one caller, outside the host's /usr.
 *
 * Of the homes that tools.def lists the first counts in which the caller may run the program and the program really lies in
 * a tree that is shown: a link that leads out of them would lead nowhere inside.
 * Owner:   whoever embeds it; zeroed at first. tool_search_end at any time, on_done never comes after it.
 * Errors:  UNSUPPORTED when it is in none of them, DRIVER_UNAVAILABLE, LIMIT_REACHED. */
#pragma once

#include "core/imports/opener.h"
#include "core/imports/tools.h"

#define TOOL_PATH_MAX 256 /* with the NUL, as a mount's target */

struct tool_tree {
    char path[TOOL_PATH_MAX]; /* on the host and inside */
    char real[TOOL_PATH_MAX];
    bool is_foreign;
    int fd; /* -1: this home has none, or it was taken */
};

struct tool_search {
    struct opener *opener;
    const struct tool *tool;
    uint32_t uid;
    struct open_ask ask;
    size_t home;
    size_t at;                              /* which tree of it; past the last: the program */
    struct tool_tree trees[TOOL_TREES_MAX]; /* the first is the program's directory */
    struct err refused;                     /* why one that may be there cannot be used */
    void (*on_done)(struct tool_search *s, const struct err *e);
};

/* on_done follows, from the loop. */
void tool_search_begin(struct tool_search *s, struct opener *o, uint32_t uid, const struct tool *t,
                       void (*on_done)(struct tool_search *s, const struct err *e));
/* Idempotent, also for a zeroed one. Closes what was opened and not taken. */
void tool_search_end(struct tool_search *s);
/* What is told where there is nothing to search with: `why`, or NULL. */
int tool_not_found(const struct tool *t, const char *why, struct err *e);
