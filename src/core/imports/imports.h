/* imports — resolves the host files that a sandbox imports, with the rights of the sandbox's owner:
 * opens its mounts, checks the sources of its copies, searches for tools that are not in /usr, and
 * opens the caches of tools.
 *
 * bermd does this twice: before it accepts a create or start, so that a wrong path fails at once
 * with the name of its field; and when it creates the instance, because a path may lead elsewhere
 * by then.
 * Owner:   the object that embeds it, which zeroes it first.
 * End:     on_done, once, unless imports_end is called before. imports_end is allowed at any time.
 * Bounds:  INSTANCE_MOUNTS_MAX open directories.
 * Errors:  those of berm-open and tool_search, prefixed with the field of the spec;
 *          INVALID_ARGUMENT, OUT_OF_MEMORY. */
#pragma once

#include "core/driver.h"
#include "core/imports/opener.h"
#include "core/env.h"
#include "core/imports/tool_search.h"

enum import_kind { IMPORT_MOUNT, IMPORT_COPY, IMPORT_CACHE, IMPORT_TOOL };

struct import_item {
    enum import_kind kind;
    char *source;
    char *target; /* NULL if the item is a copy */
    bool writable;
    /* Set when the directory is opened: it does not belong to the sandbox's owner. */
    bool is_foreign;
    bool is_bin;    /* a tool's directory that contains programs */
    unsigned index; /* index in the item's list of the spec */
    int fd;         /* -1: not open yet, a copy, or a cache that does not exist */
};

struct imports {
    struct env *env;
    struct open_ask ask;
    struct import_item *items; /* mounts in order, then copies, caches and directories of tools */
    size_t n_items;
    size_t at; /* index of the item that is being opened */
    struct tool_search search;
    const struct tool *tools[TOOLS_MAX]; /* by index in the spec; NULL: the tool needs no search */
    size_t n_tools;
    size_t tool; /* index of the tool that is being searched for */
    uint32_t uid;
    void (*on_done)(struct imports *in, const struct err *e);
};

/* Returns the uid whose rights apply for this owner. HOST_PATH_REFUSED if the owner may not import
 * host paths. */
MUST_USE int imports_uid(struct env *env, const char *owner, uint32_t *ret_uid, struct err *e);
/* Returns 1 if on_done follows, 0 if the spec imports nothing, otherwise -number. Copies what it
 * needs from the spec. `with_copies`: also check the sources of the copies. */
MUST_USE int imports_begin(struct imports *in, struct env *env, const char *owner,
                           const Berm__V1__SandboxSpec *spec, bool with_copies,
                           void (*on_done)(struct imports *in, const struct err *e), struct err *e);
/* Returns the mounts, after on_done. Mounts of tools and caches come first, so that the driver
 * creates none of their targets inside a directory that the caller mounts. `in` keeps the strings
 * and descriptors. */
size_t imports_mounts(const struct imports *in,
                      struct instance_mount ret_mounts[INSTANCE_MOUNTS_MAX]);
/* Returns PATH with the directories of the tools that were found, after on_done. The caller frees
 * it. NULL: no tool was found, or out of memory. */
char *imports_path(const struct imports *in);
/* Returns the largest number of mounts that this spec can lead to. */
size_t imports_mounts_max(const Berm__V1__SandboxSpec *spec);
/* Closes every open directory. May be called repeatedly, also for a zeroed struct. */
void imports_end(struct imports *in);
