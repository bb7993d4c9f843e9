/* h2_conn — gRPC over one HTTP/2 connection: frames ↔ messages ↔ calls.
 *
 * Bounds:  per connection connection.unfinished of incomplete messages, and no further request past
 *          connection.unread; each call has its own (grpc_call.h). */
#pragma once

#include "transport/conn.h"

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* Makes the connection speak HTTP/2 from its first byte on. -ENOMEM. */
MUST_USE int h2_conn_start(struct conn *c);
