/* userns — one range of 65536 host ids per sandbox, and the mappings of mounts that belong to it.
 *
 * Slot n owns host ids 65536 * (n + 3) upward: 0 inside is the range's base outside, so a file or
 * process of one sandbox never shares an id with another's or with the host's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "spawn/request.h"

static inline uint32_t userns_base(uint32_t slot) {
    return SPAWN_UID_SPAN * (slot + 3);
}

/* The slot whose range begins at `base`; false when none does. */
static inline bool userns_slot(uint32_t base, uint32_t *ret_slot) {
    *ret_slot = base / SPAWN_UID_SPAN - 3;
    return base % SPAWN_UID_SPAN == 0 && base >= userns_base(0) && *ret_slot < SPAWN_SLOTS;
}

/* The real id of a process that makes sandboxes: beyond all ranges, so nobody else's. Of a namespace that a real root
 * made the kernel does not limit the processes. Both to take on another real id and to go back makes it look through all
 * ids that share a chain of its table with that one, as ranges that are 65536 apart do among themselves and with root:
 * so this one is kept, and only the effective id changes. */
#define USERNS_MAKER (userns_base(SPAWN_SLOTS) + 1)
MUST_USE int userns_be_maker(void);

/* Gives the user namespace of `pid` its ids, lines "inside outside count". `proc` is our own
 * procfs. */
MUST_USE int userns_map(int proc, pid_t pid, const char *uid_line, const char *gid_line);

/* What a namespace uses of inotify, queues, signals and processes is charged to the id that made it: its
 * own range, then, and not the host's root. `uid` 0 goes back. Keeps every capability. For a maker only. */
MUST_USE int userns_creator(uint32_t uid);

/* The user namespace that `pid` lives in. */
MUST_USE int userns_open(int proc, pid_t pid);

/* `count` ids from `uid` and `gid` on disk show as those from `outer` on. */
struct userns_part {
    uint32_t uid, gid, outer, count;
};

/* A user namespace for mapping a mount; what no part names is nobody's there. Nobody lives in it. */
MUST_USE int userns_for_mount(int proc, const struct userns_part *parts, unsigned n);
