/* clock — monotonic time, for deadlines and durations. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}
