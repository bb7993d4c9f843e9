/* layer — where a sandbox's writes go: a directory of the state file system, with a quota or without,
 * a tmpfs, or a disk image.
 *
 * A layer is one directory with `upper` and `work` for the root, `t-<tree>-upper`, `t-<tree>-work`
 * for each tree that is mounted writable, and a pair of layer_names for each LAYERED mount. Files in it carry the host ids of the sandbox's range,
 * and the layer's owner tells which range: a layer never changes hands without being mapped. */
#pragma once

#include "base/macros.h"
#include "spawn/spawn.h"

/* A detached mount whose root is the layer, with `upper` and `work` in it. For a directory layer
 * the caller stands in the host's mount namespace (spawn_enter_host). *made is set when the layer
 * was not there before: whoever fails afterwards removes it. */
MUST_USE int layer_open(struct spawn *s, const struct spawn_create *req, bool *made,
                        uint32_t *ret_step);
/* A kept layer, read-only use; *ret_base is the first id of the range it was written with. */
MUST_USE int layer_open_kept(struct spawn *s, const char *id, uint32_t *ret_base);

/* Makes a pair of directories in a layer if absent and opens them. What is made belongs to `owner`, an id of
 * the range; what another range has made is refused. */
MUST_USE int layer_pair(int layer, const char *upper, const char *work, uint32_t owner,
                        int *ret_upper, int *ret_work);
/* The pair that belongs to a target. The kernel lets two overlays share one and leaves open what comes of it, so
 * check_create refuses that. */
#define LAYER_NAME_MAX 32
void layer_names(const char *target, char ret_upper[LAYER_NAME_MAX], char ret_work[LAYER_NAME_MAX]);

/* Moves the layer out of the way and lets it be deleted in the background. -ENOENT when there is
 * none. */
MUST_USE int layer_remove(struct spawn *s, const char *id);
/* A process of its own that empties the trash, now and whenever it is woken. It outlives us
 * until the trash is empty. */
MUST_USE int layer_start_trash(struct spawn *s);
/* It has ended, though nobody asked it to: spawn_chores starts another. */
void layer_trash_ended(struct spawn *s);
void layer_empty_trash(struct spawn *s);
/* The deletion in this process, for a program that ends when it is done. */
void layer_delete_now(struct spawn *s);
