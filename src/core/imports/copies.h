/* copies — copies host files into a sandbox before it is READY for the first time.
 *
 * The copies run one after the other. berm-open checks the source, the guest starts to unpack and
 * replies with a pipe, and berm-open packs the source into that pipe with the owner's rights. A
 * copy is done when both have reported. The bytes do not pass through bermd. If the guest cannot
 * pass a pipe, bermd creates one, and copy_feed sends the bytes over the link in chunks.
 * Owner:   the sandbox, which embeds it.
 * End:     on_done, once per copies_begin, or copies_drop at any time.
 * Restart: after a restart of bermd or a broken link, all copies start again; the guest replaces
 *          existing files. A marker file in the sandbox's directory records that all are done. A
 *          layer in memory gets the copies at every start.
 * Errors:  those of berm-open and the guest, prefixed with the field of the spec. */
#pragma once

#include "core/box/box.h"
#include "core/guest/guest_notice.h"

/* The copies of one sandbox; the sandbox embeds it. */
struct copies {
    struct box *box;
    struct copying *now; /* the running copy; NULL: none */
    bool are_done;
    void (*on_done)(struct copies *all, const struct err *e); /* e NULL: all copies are done */
};

/* Returns whether nothing is left to copy. */
bool copies_are_done(struct copies *all);
/* Call this when the layer was removed: the next start copies everything again. */
void copies_forget(struct copies *all);
/* Starts copying, unless it already runs; on_done follows. */
void copies_begin(struct copies *all);
/* Abandons a running copy, without on_done. */
void copies_drop(struct copies *all);
/* Handles the guest's TREE_DONE: the guest finished unpacking. */
void copies_notice(struct copies *all, const struct guest_tree_done *done);
