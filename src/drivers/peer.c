#include "drivers/peer.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD /* Linux 6.5; older C libraries do not name it */
#define SO_PEERPIDFD 77
#endif

/* Before Linux 6.5 the kernel reports only the pid. While the connection is open, the pid still
 * belongs to the peer, because the exit of the peer closes the connection. */
int peer_pidfd(int socket_fd) {
    int fd = -1;
    struct ucred cred;
    socklen_t fd_len = sizeof fd, cred_len = sizeof cred;
    if (getsockopt(socket_fd, SOL_SOCKET, SO_PEERPIDFD, &fd, &fd_len) == 0)
        return fd;
    if (errno != ENOPROTOOPT ||
        getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
        return -errno;
    fd = pidfd_open(cred.pid, 0);
    struct pollfd p = {.fd = socket_fd, .events = POLLRDHUP};
    if (fd >= 0 && poll(&p, 1, 0) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -errno : -ESRCH;
}
