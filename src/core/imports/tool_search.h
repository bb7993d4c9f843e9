/* tool_search — finds the directories of one tool for one caller, outside the host's /usr.
 *
 * tools.def lists homes for each tool: groups of directories (trees) that are mounted together. The
 * search selects the first home in which the caller may run the program and the program, without
 * symlinks, is below one of the trees. A symlink that leaves the trees would be broken inside the
 * sandbox.
 * Owner:   the object that embeds it, which zeroes it first.
 * End:     on_done, once, unless tool_search_end is called before. tool_search_end is allowed at
 *          any time.
 * Errors:  UNSUPPORTED if no home has the tool; DRIVER_UNAVAILABLE, LIMIT_REACHED,
 *          OUT_OF_MEMORY. */
#pragma once

#include "core/imports/opener.h"
#include "core/imports/tools.h"

#define TOOL_PATH_MAX 256 /* including the NUL; equal to the limit of a mount target */

struct tool_tree {
    char path[TOOL_PATH_MAX]; /* the same on the host and in the sandbox */
    char real[TOOL_PATH_MAX]; /* the path without symlinks */
    bool is_foreign;          /* the directory belongs to another user */
    int fd;                   /* -1: not open, or the owner of the search took it */
};

struct tool_search {
    struct opener *opener;
    const struct tool *tool;
    uint32_t uid;
    struct open_ask ask;
    size_t home; /* index in tool.homes */
    size_t at;   /* index of the tree being opened; TOOL_TREES_MAX: the program is checked */
    struct tool_tree trees[TOOL_TREES_MAX]; /* the first tree contains the program */
    struct err refused; /* the first reason why an existing tool cannot be used */
    void (*on_done)(struct tool_search *s, const struct err *e);
};

/* Starts the search; on_done follows, from the loop. */
void tool_search_begin(struct tool_search *s, struct opener *o, uint32_t uid, const struct tool *t,
                       void (*on_done)(struct tool_search *s, const struct err *e));
/* Closes the trees that the owner has not taken. May be called repeatedly, also for a zeroed
 * struct. */
void tool_search_end(struct tool_search *s);
/* Sets the error UNSUPPORTED, which lists the directories of the tool. `why` is the reason, or
 * NULL. */
int tool_not_found(const struct tool *t, const char *why, struct err *e);
