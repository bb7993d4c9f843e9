/* reply — replies that are sent after the handler of the request has returned. */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct guest;

/* Queues a result; `members` is JSON without the outer braces. Takes the descriptors. When the connection
 * that sent the request is gone, sends nothing and closes them. */
void reply_send(struct guest *g, uint64_t generation, int64_t id, struct str members,
                const int *fds, size_t n_fds);
void reply_error(struct guest *g, uint64_t generation, int64_t id, const struct err *e,
                 int64_t next_offset);
