/* serve — handles one request in a child that has become the caller. */
#pragma once

#include "open/check.h"
#include "open/request.h"

/* Returns whether the message is a valid request with the right descriptors. */
MUST_USE bool serve_is_request(const union open_request *q, size_t n, const int *fds, size_t n_fds);

/* Runs in the child: becomes the caller, handles the request and replies on `sock`. `pipe` is for
 * PACK, else -1. */
void serve_as_caller(const struct open_rules *r, union open_request *q, int sock, int pipe);

/* Sends a failure reply; also used for a child that ended without a reply. */
void serve_refuse(int sock, uint32_t seq, const struct err *e);
