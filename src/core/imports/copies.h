/* copies — what is copied into a sandbox before it is READY for the first time.
 *
 * One copy after the other: the source is looked at, the guest asked to unpack and answers with a pipe, and
 * berm-open packs into that pipe as the owner; done when both say so. No byte of it passes through here, unless the
 * guest cannot pass a pipe: then berm-open's is ours, and chunks go over the link (copy_feed).
 * Restart: a daemon that ends in the middle, or a link that breaks, begins again; the guest replaces what
 *          is there. That all were done is kept by a file in the sandbox's folder; a layer in memory gets
 *          them at every start.
 * Errors:  in on_done, with the field in front: what berm-open or the guest says. */
#pragma once

#include "core/box/box.h"
#include "core/guest/guest_notice.h"

/* The copies of one sandbox; the sandbox embeds it. */
struct copies {
    struct box *box;
    struct copying *now; /* while they go in */
    bool are_done;
    void (*on_done)(struct copies *all, const struct err *e); /* NULL error: all are in */
};

/* Whether nothing is left to copy. */
bool copies_are_done(struct copies *all);
/* Its layer has gone: they are to be done again. */
void copies_forget(struct copies *all);
/* Begins, unless it is under way; on_done follows. */
void copies_begin(struct copies *all);
/* Lets go of what is under way, if anything is. */
void copies_drop(struct copies *all);
/* `tree_done` of the guest. */
void copies_notice(struct copies *all, const struct guest_tree_done *done);
