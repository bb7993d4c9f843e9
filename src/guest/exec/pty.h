/* pty — terminals from the devpts of the sandbox. */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "guest/user.h"

/* Opens a new terminal: the master side, non-blocking, and the program's side, owned by `u`. -errno. */
MUST_USE int pty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master,
                      int *ret_slave);
/* The kernel sends SIGWINCH to the foreground process group. -errno. */
MUST_USE int pty_resize(int master, uint16_t cols, uint16_t rows);
