/* terminal — berm-jail between the caller's terminal and one inside.
 *
 * Where 0, 1 and 2 all are terminals the command gets one of the sandbox's own: PID 1 opens it there, makes it the
 * controlling terminal of the command and passes the other end out. The caller's is raw meanwhile and never goes
 * inside; keys, output and changes of size are copied. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "base/macros.h"

struct terminal {
    bool is_wanted;
    bool is_raw;    /* the caller's; `saved` is how it was */
    bool is_at_end; /* no more keys */
    int link[2];    /* the second is PID 1's descriptor 3 */
    int master;     /* -1 until PID 1 has sent it, and when its other side is closed */
    char keys[4096];
    size_t n_keys; /* read and not yet taken by the master */
    struct termios saved;
};

/* Whether the command gets one, and then the link to PID 1. */
MUST_USE int terminal_init(struct terminal *t);
/* How many descriptors of `fds` are to be watched: 0, 1 or 2. */
unsigned terminal_watch(const struct terminal *t, struct pollfd fds[2]);
/* Does what can be done now. */
void terminal_serve(struct terminal *t, const struct pollfd fds[2]);
/* The caller's window has another size. */
void terminal_resize(const struct terminal *t);
/* What is left of the output; then the caller's terminal is as it was. */
void terminal_done(struct terminal *t);
