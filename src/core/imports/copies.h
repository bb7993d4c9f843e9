/* copies — what is copied into a sandbox before it is READY for the first time.
 *
 * One copy after the other: the source is looked at, the guest asked to unpack and answers with a pipe, and
 * berm-open packs into that pipe as the owner; done when both say so. No byte of it passes through here, unless the
 * guest cannot pass a pipe: then berm-open's is ours, and chunks go over the link (copy_feed).
 * Restart: a daemon that ends in the middle, or a link that breaks, begins again; the guest replaces what
 *          is there. That all were done is kept by a file in the sandbox's folder; a layer in memory gets
 *          them at every start.
 * Errors:  as sandbox.failure, with the field in front: what berm-open or the guest says. */
#pragma once

#include "core/sandbox/sandbox_impl.h"

/* Whether nothing is left to copy. */
bool copies_are_done(struct sandbox *sb);
/* Its layer has gone: they are to be done again. */
void copies_forget(struct sandbox *sb);
/* Begins, unless it is under way; sandbox_converge follows when it is over. */
void copies_begin(struct sandbox *sb);
/* Lets go of what is under way, if anything is. */
void copies_drop(struct sandbox *sb);
/* `tree_done` of the guest. */
void copies_notice(struct sandbox *sb, const struct guest_tree_done *done);
