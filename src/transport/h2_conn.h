/* h2_conn — gRPC over one HTTP/2 connection: frames ↔ messages ↔ calls.
 *
 * Bounds:  per call call.unread of output and one message, one request message being put together;
 *          per connection connection.unfinished of those, and no further request past connection.unread. */
#pragma once

#include "transport/conn.h"

#define H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* Makes the connection speak HTTP/2 from its first byte on. -ENOMEM. */
MUST_USE int h2_conn_start(struct conn *c);
/* Frees the calls kept for reuse. */
void h2_conn_pool_done(struct server *s);
