#include "guest/exec/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <termios.h>

int pty_resize(int master, uint16_t cols, uint16_t rows) {
    struct winsize size = {.ws_col = cols, .ws_row = rows};
    return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

/* The opener owns the terminal. Opening as `u` needs no right to change the owner, which the guest may
 * lack. */
static int pty_open_master(const struct user *u) {
    setfsgid(u->gid);
    setfsuid(u->uid);
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int error = errno;
    setfsuid(geteuid());
    setfsgid(getegid());
    return fd < 0 ? -error : fd;
}

int pty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master, int *ret_slave) {
    AUTO_CLOSE int master = pty_open_master(u);
    if (master < 0)
        return master;
    int locked = 0;
    if (ioctl(master, TIOCSPTLCK, &locked) < 0)
        return -errno;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    int r = pty_resize(master, cols, rows);
    if (r < 0) {
        close(slave);
        return r;
    }
    *ret_slave = slave;
    *ret_master = TAKE_FD(master);
    return 0;
}
