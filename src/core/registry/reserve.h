/* reserve — the room on the state's disk that sandboxes leave to the host: *disk.reserve*.
 *
 * Owner:   the registry.
 * Looks at the disk while a sandbox runs that nothing else keeps from filling it: one whose layer is on
 * disk and has no limit; seldom while there is much room, often when little is left, else never.
 * Below the reserve every such sandbox is paused, as by a caller, and those that were are resumed when there
 * is an eighth more than it, so that they do not go on for a moment only.
 * Restart: the reason in a sandbox's record says that it is held, from the intent on.
 * Errors:  STORE_FULL. */
#pragma once

#include "core/registry/registry_impl.h"

struct sandbox;

void reserve_init(struct registry *r);
/* What was found at the start is looked at. */
void reserve_begin(struct registry *r);
void reserve_end(struct registry *r);
/* Call this when the sandbox may have started running. */
void reserve_watch(struct registry *r, struct sandbox *sb);
