/* guest_exec_read — converts an exec_state of the guest into a typed state. */
#pragma once

#include "core/guest/guest_exec.h"

/* GUEST_PROTOCOL: the state has no valid exec_id. Other invalid members count as not sent. */
MUST_USE int guest_exec_state_read(const struct json *state, struct guest_exec_state *ret,
                                   struct err *e);
