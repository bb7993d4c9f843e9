/* enter_mounts — the mount steps of enter.c, inside the sandbox's own mount namespace.
 *
 * That namespace begins as a copy of berm-spawn's: one read-only tmpfs and nothing else. /proc
 * and /dev are completed in a corner of it and moved in whole, so no half-masked /proc is ever
 * reachable, and no path of the image is resolved but by openat2 without symlinks. Raw system
 * calls only. */
#pragma once

#include "spawn/enter.h"

/* Once, at start, in the parent: which masks this kernel's /proc needs. Not for a single sandbox, which
 * finds out as it goes: struct enter has 0 then. */
uint32_t enter_masks_needed(int proc);

int enter_stage_proc(struct enter *e);
int enter_stage_dev(struct enter *e);
int enter_attach_mounts(struct enter *e);
int enter_switch_root(struct enter *e);

/* Later, from outside: the caller stands in the sandbox's mount namespace with rights over it. `target` is
 * relative to its root; directories that are missing are made. */
MUST_USE int enter_attach_late(int mount, const char *target);
