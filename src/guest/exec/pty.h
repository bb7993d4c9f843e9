/* pty — terminals from the devpts of the sandbox. */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "guest/user.h"

/* Opens a new terminal: the non-blocking master side, and the program's side, owned by `u`. Fails
 * with -errno. */
MUST_USE int pty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master,
                      int *ret_slave);
/* Changes the terminal size. The kernel sends SIGWINCH to the foreground process group. Fails with
 * -errno. */
MUST_USE int pty_resize(int master, uint16_t cols, uint16_t rows);
