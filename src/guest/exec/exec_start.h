/* exec_start — the `exec` request: prepares descriptors and launches the program. */
#pragma once

#include "base/err.h"

struct request;

/* Repeating the request with the same exec_id replies with the state of the existing exec. */
int exec_start_method(struct request *r, struct err *e);
