/* layer — the storage of a sandbox's writes: a directory in the state file system (with or without
 * a quota), a tmpfs, or a disk image.
 *
 * A layer is a directory with `upper` and `work` for the root, `t-<tree>-upper` and `t-<tree>-work`
 * for each writable tree, and a pair of layer_names for each LAYERED mount. Its files have host ids
 * of the sandbox's uid slot, and the owner of the layer identifies the slot. Another sandbox can
 * only use a layer through an id mapping. */
#pragma once

#include "base/macros.h"
#include "spawn/spawn.h"

/* Returns a detached mount of the layer. For a directory layer, the caller must be in the host's
 * mount namespace (spawn_enter_host). *made is set when the layer is new; remove it if a later step
 * fails. */
MUST_USE int layer_open(struct spawn *s, const struct spawn_create *req, bool *made,
                        uint32_t *ret_step);
/* Opens a kept layer for reading. *ret_base is the first id of the slot that wrote it. */
MUST_USE int layer_open_kept(struct spawn *s, const char *id, uint32_t *ret_base);

/* Opens a pair of directories in a layer, creating them if absent. New ones belong to `owner`, an
 * id of the slot. Refuses directories of another slot. */
MUST_USE int layer_pair(int layer, const char *upper, const char *work, uint32_t owner,
                        int *ret_upper, int *ret_work);
/* Returns the names of the pair for a mount target. The kernel lets two overlays share a pair, with
 * undefined results, so check_create refuses that. */
#define LAYER_NAME_MAX 32
void layer_names(const char *target, char ret_upper[LAYER_NAME_MAX], char ret_work[LAYER_NAME_MAX]);

/* Moves the layer to the trash, to be deleted in the background. Fails with -ENOENT if it is
 * absent. */
MUST_USE int layer_remove(struct spawn *s, const char *id);
/* Starts the process that empties the trash, now and whenever it is woken. The process outlives
 * berm-spawn until the trash is empty. */
MUST_USE int layer_start_trash(struct spawn *s);
/* Call this when the trash process has ended unexpectedly. spawn_chores starts a new one. */
void layer_trash_ended(struct spawn *s);
void layer_empty_trash(struct spawn *s);
/* Empties the trash in this process, for a program that exits afterwards. */
void layer_delete_now(struct spawn *s);
