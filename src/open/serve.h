/* serve — one request, done by a child that has become the caller. */
#pragma once

#include "open/check.h"
#include "open/request.h"

/* Whether the message is one that may be asked, with the descriptors it needs. */
MUST_USE bool serve_is_request(const union open_request *q, size_t n, const int *fds, size_t n_fds);

/* In the child: becomes the caller, does it, and tells `sock`. `pipe` is PACK's, else -1. */
void serve_as_caller(const struct open_rules *r, union open_request *q, int sock, int pipe);

/* Tells `sock` that it failed; also for a child that ended without a word. */
void serve_refuse(int sock, uint32_t seq, const struct err *e);
