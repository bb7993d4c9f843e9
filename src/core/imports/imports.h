/* imports — what of the host goes into a sandbox: its mounts are opened, its copies' sources looked at, its tools
 * that are not in /usr searched for and their caches opened, all with the rights of the sandbox's owner.
 *
 * Done twice: before a create or start is accepted, so that a wrong path is refused at once and by its field;
 * and when the instance is made, because what a path leads to may have changed.
 * Owner:   whoever embeds it; zeroed at first. imports_end at any time, on_done never comes after it. */
#pragma once

#include "core/driver.h"
#include "core/imports/opener.h"
#include "core/env.h"
#include "core/imports/tool_search.h"

enum import_kind { IMPORT_MOUNT, IMPORT_COPY, IMPORT_CACHE, IMPORT_TOOL };

struct import_item {
    enum import_kind kind;
    char *source;
    char *target; /* not of a copy */
    bool writable;
    bool is_foreign; /* once it is open: not the owner's own */
    bool is_bin;     /* of a tool: programs lie in it */
    unsigned index;  /* in its list of the spec */
    int fd; /* once it is open, else -1; never of a copy, nor of a cache that is not there */
};

struct imports {
    struct env *env;
    struct open_ask ask;
    struct import_item *
        items; /* the mounts, in order, then the copies, the caches, and what tools were found in */
    size_t n_items;
    size_t at;
    struct tool_search search;
    const struct tool
        *tools[TOOLS_MAX]; /* that are to be searched for, NULL = as it is; by index in the spec */
    size_t n_tools;
    size_t tool;
    uint32_t uid;
    void (*on_done)(struct imports *in, const struct err *e);
};

/* Whose rights count for this owner. HOST_PATH_REFUSED where no path may go in. */
MUST_USE int imports_uid(struct env *env, const char *owner, uint32_t *ret_uid, struct err *e);
/* 1: on_done follows. 0: nothing of the host goes in. Else -number. The spec is not needed any more.
 * Without `with_copies` these are left out. */
MUST_USE int imports_begin(struct imports *in, struct env *env, const char *owner,
                           const Berm__V1__SandboxSpec *spec, bool with_copies,
                           void (*on_done)(struct imports *in, const struct err *e), struct err *e);
/* Of one that is done: its mounts, those of tools and caches first, so that nothing is made in what the caller mounts. Their
 * strings and descriptors stay the imports's. */
size_t imports_mounts(const struct imports *in,
                      struct instance_mount ret_mounts[INSTANCE_MOUNTS_MAX]);
/* Of one that is done: PATH with the tools it found, yours; NULL: none was, or no memory. */
char *imports_path(const struct imports *in);
/* How many mounts there can be at most. */
size_t imports_mounts_max(const Berm__V1__SandboxSpec *spec);
/* Idempotent, also for a zeroed one. Closes what was opened. */
void imports_end(struct imports *in);
