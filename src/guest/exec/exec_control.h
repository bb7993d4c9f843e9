/* exec_control — signals and the terminal size of a running exec. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct request;

/* The numbers that the daemon gave to the last signals. A daemon that was killed repeats a request under the
 * same number, and the guest does not send the signal again. */
struct exec_signals {
    int64_t numbers[16]; /* 0: none */
    unsigned next;
};

int exec_control_method_signal(struct request *r, struct err *e);
int exec_control_method_resize(struct request *r, struct err *e);
