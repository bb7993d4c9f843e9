/* terminal — connects the caller's terminal with one inside the sandbox.
 *
 * If descriptors 0, 1 and 2 are terminals, the command gets a terminal of the sandbox. PID 1 opens
 * it, makes it the command's controlling terminal and sends the master out. The caller's terminal
 * is raw meanwhile and never enters the sandbox. berm-jail copies keys, output and size changes. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/macros.h"

struct terminal {
    bool is_wanted;
    bool is_raw;    /* the caller's terminal is raw; `saved` has its old settings */
    bool is_at_end; /* the caller's input has ended */
    int link[2];    /* a socket pair; link[1] becomes PID 1's descriptor 3 */
    int master;     /* -1 before PID 1 has sent the master and after the slave side is closed */
    char keys[4096];
    size_t n_keys; /* bytes read from the caller and not yet written to the master */
    struct termios saved;
};

/* Decides whether the command gets a terminal, and then creates the link to PID 1. */
MUST_USE int terminal_init(struct terminal *t);
/* Returns how many entries of `fds` to poll: 0, 1 or 2. */
unsigned terminal_watch(const struct terminal *t, struct pollfd fds[2]);
/* Handles the events that poll reported. */
void terminal_serve(struct terminal *t, const struct pollfd fds[2]);
/* Copies the caller's window size. */
void terminal_resize(const struct terminal *t);
/* Copies the remaining output, then restores the caller's terminal. */
void terminal_done(struct terminal *t);
