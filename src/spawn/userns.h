/* userns — one slot of 65536 host ids per sandbox, and the id mappings of its mounts.
 *
 * Slot n has the host ids from 65536 * (n + 3). Id 0 inside is the first id of the slot outside, so
 * files and processes of one sandbox never share an id with another sandbox or with the host. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "spawn/request.h"

static inline uint32_t userns_base(uint32_t slot) {
    return SPAWN_UID_SPAN * (slot + 3);
}

/* Returns the slot that starts at `base`, or false if there is none. */
static inline bool userns_slot(uint32_t base, uint32_t *ret_slot) {
    *ret_slot = base / SPAWN_UID_SPAN - 3;
    return base % SPAWN_UID_SPAN == 0 && base >= userns_base(0) && *ret_slot < SPAWN_SLOTS;
}

/* The real uid of the process that creates sandboxes: above all slots, so nobody else has it. It
 * must not be root, because the kernel does not limit the processes of a namespace that a real root
 * created. It never changes, because each change makes the kernel walk all ids in the same hash
 * chain, and slots, which are 65536 apart, share a chain with each other and with root. So only the
 * effective uid changes. */
#define USERNS_MAKER (userns_base(SPAWN_SLOTS) + 1)
MUST_USE int userns_be_maker(void);

/* Maps the ids of the user namespace of `pid` with lines "inside outside count". `proc` is our
 * procfs. */
MUST_USE int userns_map(int proc, pid_t pid, const char *uid_line, const char *gid_line);

/* Sets the effective uid so that inotify, queue, signal and process usage of the next namespace is
 * charged to its own slot, not to the host's root. `uid` 0 switches back. Keeps all capabilities.
 * Call userns_be_maker first. */
MUST_USE int userns_creator(uint32_t uid);

/* Opens the user namespace of `pid`. */
MUST_USE int userns_open(int proc, pid_t pid);

/* `count` ids from `uid` and `gid` on disk appear as the ids from `outer`. */
struct userns_part {
    uint32_t uid, gid, outer, count;
};

/* Creates a user namespace for an id-mapped mount. Ids outside the parts appear as nobody. No
 * process lives in it. */
MUST_USE int userns_for_mount(int proc, const struct userns_part *parts, unsigned n);
