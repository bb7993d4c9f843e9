/* reserve — watches the disk space that sandboxes leave to the host: *disk.reserve*.
 *
 * Owner:   the registry.
 * Checks:  only while a sandbox runs whose layer is on disk and has no limit; rarely while there is
 *          much space, often while there is little.
 * Acts:    below the reserve it pauses every such sandbox, as a caller would. It resumes them when
 *          an eighth more than the reserve is free, so that they do not pause again at once.
 * Restart: the record of a paused sandbox names the reserve as the reason, already in the intent of
 *          the pause.
 * Errors:  STORE_FULL; see core/sandbox/sandbox_reserve.c. */
#pragma once

#include "core/registry/registry_impl.h"

struct sandbox;

void reserve_init(struct registry *r);
/* Starts the checks for the sandboxes that recovery found. */
void reserve_begin(struct registry *r);
void reserve_end(struct registry *r);
/* Call this when the sandbox may have started running. */
void reserve_watch(struct registry *r, struct sandbox *sb);
