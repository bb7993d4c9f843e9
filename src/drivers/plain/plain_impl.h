/* The plain driver's internals. plain.c is the driver, plain_process.c handles one guest
 * process. */
#pragma once

#include <sys/types.h>

#include "base/list.h"
#include "drivers/plain/plain.h"

struct plain {
    struct driver driver;
    int dir_fd;
    char *guest;
    char user[16]; /* bermd's uid as text */
    bool is_bytes_only;
    bool closing;
    struct list instances;
    struct list answers; /* callbacks for the loop to call */
    int exits_fd;        /* an epoll of all guests' pidfds */
    uv_poll_t exits;
    uv_async_t kick; /* sent when there are answers or ready instances */
};

/* The functions of plain_process.c. All are synchronous. */
/* Starts a guest that listens on DIR/ID.sock. Returns its pidfd, or -number. */
MUST_USE int plain_process_start(const struct plain *p, const char *id, struct err *e);
/* Returns a connection to the guest of that id, or -number. */
MUST_USE int plain_process_connect(const struct plain *p, const char *id, struct err *e);
/* Kills the guest and all its descendants. */
void plain_process_kill(int pid_fd);
/* Ends the guest of that id if it runs, and removes its socket and, if asked, its directory. */
void plain_process_remove(const struct plain *p, const char *id, bool with_files);
