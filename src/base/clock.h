/* clock — monotonic time for deadlines and durations, wall-clock time for records and messages. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Milliseconds since 1970. Wall-clock time can jump, so never measure a duration with it. */
static inline int64_t clock_unix_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
