/* What the typed calls of core/guest use to write requests. Nothing outside core/guest includes
 * it. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "core/guest/guest_link.h"

/* Starts a request and returns its open `params` object, borrowed until guest_link_send completes
 * the request. Call no other function of the link in between. */
struct json_out *guest_link_ask(struct guest_link *l, const char *method);
/* Sends the request with descriptors, which the caller keeps: the link sends or duplicates them
 * before this returns, and writes "fds" itself. `w` NULL: nobody waits for the answer. The loop
 * reports a failure to `w` as an answer. */
void guest_link_send(struct guest_link *l, const int *fds, size_t n_fds, struct guest_wait *w);
