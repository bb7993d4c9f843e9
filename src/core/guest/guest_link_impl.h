/* What the typed calls of core/guest use to write requests. Nothing outside core/guest includes
 * it. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "core/guest/guest_link.h"

/* Begins a request and lends its open `params` object; guest_link_send ends it. Call nothing else
 * in between. */
struct json_out *guest_link_ask(struct guest_link *l, const char *method);
/* Sends the request with descriptors, which stay the caller's: the link sends or duplicates them
 * before this returns, and writes "fds" itself. `w` may be NULL: nobody waits. A failure arrives as
 * an answer, from the loop. */
void guest_link_send(struct guest_link *l, const int *fds, size_t n_fds, struct guest_wait *w);
