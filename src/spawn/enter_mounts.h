/* enter_mounts — the mount steps of enter.c, inside the sandbox's mount namespace.
 *
 * That namespace starts as a copy of berm-spawn's, which contains one read-only tmpfs. /proc and
 * /dev are completed under /stage and then moved into the root, so a /proc with missing masks is
 * never reachable. Paths of the image are only resolved with openat2 and without symlinks. Raw
 * system calls only. */
#pragma once

#include "spawn/enter.h"

/* Returns the masks that this kernel's /proc needs. Called once, in the parent. berm-jail skips
 * this: a value of 0 in struct enter makes the child check each file. */
uint32_t enter_masks_needed(int proc);

int enter_stage_proc(struct enter *e);
int enter_stage_dev(struct enter *e);
int enter_attach_mounts(struct enter *e);
int enter_switch_root(struct enter *e);

/* Attaches a mount later, from outside. The caller must be in the sandbox's mount namespace, with
 * rights over it. `target` is relative to its root; missing directories are created. */
MUST_USE int enter_attach_late(int mount, const char *target);
