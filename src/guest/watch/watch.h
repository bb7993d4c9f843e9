/* watch — reports changes below a path with `changed`: the part in the guest. A child that runs as the sandbox
 * user (watcher.c) uses inotify and sends complete messages; the guest adds the watch_id.
 *
 * Owner:  struct watches, until `unwatch`, the end of the connection, or `ended`.
 * Bounds: WATCHES_MAX. While the daemon does not read, the guest does not read from the children. They block,
 *         the inotify queue overflows, and they report `resync`. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

#define WATCHES_MAX 64

struct request;

struct watches {
    struct list all;
    size_t count;
    uint64_t last_id;
};

void watches_init(struct watches *ws);

int watch_method_watch(struct request *r, struct err *e);
int watch_method_unwatch(struct request *r, struct err *e);
/* Sends changes that waited for the daemon to read. Returns whether it queued any. Call once per turn. */
bool watches_turn(struct watches *ws);
void watches_close_all(struct watches *ws);
