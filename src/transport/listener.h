/* listener — an address on which the daemon accepts connections.
 *
 * Owner:   main.       End: listener_close, which also unlinks the Unix socket if the daemon's user
 *                      may do so.
 * A listener replaces a Unix socket that no process serves, and refuses one that a live process
 * serves. */
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
/* Accepts "127.0.0.1:0", "[::1]:7777", "localhost:7777". Refuses an address that other machines can
 * reach. */
MUST_USE int listener_tcp(struct listener *l, struct server *s, const char *address, struct err *e);
/* Starts accepting. Before this call the address is only bound. */
MUST_USE int listener_start(struct listener *l, struct err *e);
void listener_close(struct listener *l);
