/* peer — the process at the other end of a Unix socket. */
#pragma once

/* A pidfd of the process that called listen, owned by the caller; -errno. */
int peer_pidfd(int socket_fd);
