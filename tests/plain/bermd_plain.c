/* bermd-plain — bermd with the plain driver. BERM_PLAIN_LINK=bytes: its links pass no descriptors. */
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "bermd/daemon.h"
#include "drivers/plain/plain.h"

static struct driver *open_driver(uv_loop_t *loop, int state_dir_fd, const char *guest,
                                  void (*on_open)(struct driver *d, const struct err *e),
                                  void *user, struct err *e) {
    const char *link = getenv("BERM_PLAIN_LINK");
    int dir_fd = fd_make_dir(state_dir_fd, "plain", 0700);
    if (dir_fd < 0) {
        err_sys(e, ERR_INTERNAL, -dir_fd, "make the directory of the plain driver");
        return NULL;
    }
    return plain_open(&(struct plain_spec){.loop = loop,
                                           .dir_fd = dir_fd,
                                           .guest = guest,
                                           .is_bytes_only = link && strcmp(link, "bytes") == 0,
                                           .on_open = on_open,
                                           .user = user},
                      e);
}

int main(int argc, char **argv) {
    return daemon_main(argc, argv, &(struct daemon_extra){.open_driver = open_driver});
}
