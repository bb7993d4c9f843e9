/* error — fills struct berm_error from failures of the client and from replies of the daemon. */
#pragma once

#include <berm.h>

#include "base/macros.h"
#include "clients/c/conn.h"

/* Fills e, which may be NULL, and returns -code. */
int error_set(struct berm_error *e, enum berm_code code, const char *fmt, ...) PRINTF(3, 4);
/* Fills e from the status of an ended call. Returns -code, or 0 if the status is OK. */
MUST_USE int error_of_call(struct berm_error *e, const struct call *k);
/* Fills e from a status and its details, an encoded google.rpc.Status. Returns -code. */
int error_of_status(struct berm_error *e, int grpc_status, const char *message,
                    const uint8_t *details, size_t n);
