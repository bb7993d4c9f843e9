/* h2_conn — gRPC over one HTTP/2 connection: frames ↔ messages ↔ calls.
 *
 * Owner:   its conn.                    End: the protocol's `gone`.
 * Bounds:  connection.unfinished bytes of incomplete messages per connection. h2_conn
 *          refuses requests while more than connection.unread reply bytes are unread. Each call has
 *          its own bounds (grpc_call.h). */
#pragma once

#include "transport/conn.h"

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* Starts HTTP/2 on the connection. Fails with -ENOMEM. */
MUST_USE int h2_conn_start(struct conn *c);
