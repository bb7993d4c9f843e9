/* ingress — what of the host goes into a sandbox: its mounts are opened, its copies' sources looked at, all
 * with the rights of the sandbox's owner.
 *
 * Done twice: before a create or start is accepted, so that a wrong path is refused at once and by its field;
 * and when the place is made, because what a path leads to may have changed.
 * Owner:   whoever embeds it; zeroed at first. ingress_end at any time, on_done never comes after it. */
#pragma once

#include "core/opener.h"
#include "core/registry.h"

struct ingress_item {
    char *source;
    bool is_copy;
    bool writable;
    bool is_foreign; /* of a mount once it is open: not the owner's own */
    unsigned index;  /* in its list of the spec */
    int fd;          /* of a mount once it is open, else -1 */
};

struct ingress {
    struct registry *registry;
    struct open_ask ask;
    struct ingress_item *items; /* the mounts, in order, then the copies */
    size_t n_items;
    size_t at;
    uint32_t uid;
    void (*on_done)(struct ingress *in, const struct err *e);
};

/* Whose rights count for this owner. HOST_PATH_REFUSED where no path may go in. */
MUST_USE int ingress_uid(struct registry *r, const char *owner, uint32_t *ret_uid, struct err *e);
/* 1: on_done follows. 0: nothing of the host goes in. Else -number. The spec is not needed any more.
 * Without `with_copies` the mounts alone are opened. */
MUST_USE int ingress_begin(struct ingress *in, struct registry *r, const char *owner,
                           const Berm__V1__SandboxSpec *spec, bool with_copies,
                           void (*on_done)(struct ingress *in, const struct err *e), struct err *e);
/* Idempotent, also for a zeroed one. Closes what was opened. */
void ingress_end(struct ingress *in);
