/* guest_exec_read — an exec_state of the guest as a typed state. */
#pragma once

#include "core/guest/guest_exec.h"

/* GUEST_PROTOCOL: it has no valid exec_id. Anything else in it is read leniently. */
MUST_USE int guest_exec_state_read(const struct json *state, struct guest_exec_state *ret,
                                   struct err *e);
