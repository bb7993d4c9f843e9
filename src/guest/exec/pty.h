/* pty — terminals from the sandbox's own devpts. */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "guest/user.h"

/* A fresh pair: the master, non-blocking, and the program's side, which belongs to `u`. -errno. */
MUST_USE int pty_open(const struct user *u, uint16_t cols, uint16_t rows, int *ret_master,
                      int *ret_slave);
/* The kernel tells the foreground group with SIGWINCH. */
MUST_USE int pty_resize(int master, uint16_t cols, uint16_t rows);
