/* watch — changes below a path, told by `changed`: the guest's half. Each watch is a child as the sandbox user
 * (watcher.c) that looks with inotify and hands over whole messages; the guest puts the number on them.
 *
 * Owner:  struct watches; a watch ends by unwatch, with the connection, or by itself (`ended`).
 * Bounds: WATCHES_MAX. While the daemon does not read, nothing is taken from the children, they stop looking,
 *         and the kernel's queue overflows, which they tell as `resync`. */
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
/* Once per turn: goes on with what waited for the daemon to read. Answers whether something was told. */
bool watches_turn(struct watches *ws);
void watches_close_all(struct watches *ws);
