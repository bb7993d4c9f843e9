/* listener — an address we accept connections on.
 *
 * Owner:   main.                        Ends: listener_close; the Unix socket's file goes with it,
 *          where whom the daemon became may remove it.
 * A Unix socket that nobody answers is taken over; one that a live process serves is refused. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "transport/server.h"

struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    struct server *server;
    bool is_unix;
    bool open;
    char address[128]; /* "unix:/run/berm/bermd.sock" or "127.0.0.1:4711" */
};

MUST_USE int listener_unix(struct listener *l, struct server *s, const char *path, mode_t mode,
                           struct err *e);
/* "127.0.0.1:0", "[::1]:7777", "localhost:7777". An address other machines can reach is refused. */
MUST_USE int listener_tcp(struct listener *l, struct server *s, const char *address, struct err *e);
/* Accepts from here on; until then the address is only taken. */
MUST_USE int listener_start(struct listener *l, struct err *e);
void listener_close(struct listener *l);
