/* peer — the process at the other end of a Unix socket. */
#pragma once

/* Returns a pidfd of the process that called listen, which the caller owns, or -errno. */
int peer_pidfd(int socket_fd);
