/* error — struct berm_error: filled from the client's own failures and from what a daemon answers. */
#pragma once

#include <berm.h>

#include "base/macros.h"
#include "clients/c/conn.h"

/* Fills e, which may be NULL, and returns -code. */
int error_set(struct berm_error *e, enum berm_code code, const char *fmt, ...) PRINTF(3, 4);
/* The same from the status of a call that has ended; 0 when that is OK. */
MUST_USE int error_of_call(struct berm_error *e, const struct call *k);
/* The same from a status and its details, a google.rpc.Status in bytes. */
int error_of_status(struct berm_error *e, int grpc_status, const char *message,
                    const uint8_t *details, size_t n);
