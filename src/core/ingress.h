/* ingress — what of the host goes into a sandbox: its mounts are opened, its copies' sources looked at, its tools
 * that are not in /usr searched for and their caches opened, all with the rights of the sandbox's owner.
 *
 * Done twice: before a create or start is accepted, so that a wrong path is refused at once and by its field;
 * and when the place is made, because what a path leads to may have changed.
 * Owner:   whoever embeds it; zeroed at first. ingress_end at any time, on_done never comes after it. */
#pragma once

#include "core/driver.h"
#include "core/opener.h"
#include "core/registry.h"
#include "core/tool_search.h"

enum ingress_kind { INGRESS_MOUNT, INGRESS_COPY, INGRESS_CACHE, INGRESS_TOOL };

struct ingress_item {
    enum ingress_kind kind;
    char *source;
    char *target; /* not of a copy */
    bool writable;
    bool is_foreign; /* once it is open: not the owner's own */
    bool is_bin;     /* of a tool: programs lie in it */
    unsigned index;  /* in its list of the spec */
    int fd; /* once it is open, else -1; never of a copy, nor of a cache that is not there */
};

struct ingress {
    struct registry *registry;
    struct open_ask ask;
    struct ingress_item *
        items; /* the mounts, in order, then the copies, the caches, and what tools were found in */
    size_t n_items;
    size_t at;
    struct tool_search search;
    const struct tool
        *tools[TOOLS_MAX]; /* that are to be searched for, NULL = as it is; by index in the spec */
    size_t n_tools;
    size_t tool;
    uint32_t uid;
    void (*on_done)(struct ingress *in, const struct err *e);
};

/* Whose rights count for this owner. HOST_PATH_REFUSED where no path may go in. */
MUST_USE int ingress_uid(struct registry *r, const char *owner, uint32_t *ret_uid, struct err *e);
/* 1: on_done follows. 0: nothing of the host goes in. Else -number. The spec is not needed any more.
 * Without `with_copies` these are left out. */
MUST_USE int ingress_begin(struct ingress *in, struct registry *r, const char *owner,
                           const Berm__V1__SandboxSpec *spec, bool with_copies,
                           void (*on_done)(struct ingress *in, const struct err *e), struct err *e);
/* Of one that is done: its mounts, those of tools and caches first, so that nothing is made in what the caller mounts. Their
 * strings and descriptors stay the ingress's. */
size_t ingress_mounts(const struct ingress *in, struct place_mount ret_mounts[PLACE_MOUNTS_MAX]);
/* Of one that is done: PATH with the tools it found, yours; NULL: none was, or no memory. */
char *ingress_path(const struct ingress *in);
/* How many mounts there can be at most. */
size_t ingress_mounts_max(const Berm__V1__SandboxSpec *spec);
/* Idempotent, also for a zeroed one. Closes what was opened. */
void ingress_end(struct ingress *in);
