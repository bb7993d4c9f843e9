/* Small helpers for every file: ownership of fds and memory, and compiler checks. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */
#include <unistd.h>

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void close_fd_cleanup(int *fd) {
    if (*fd >= 0)
        close(*fd);
}

static inline void free_cleanup(void *p) {
    free(*(void **)p);
}

/* Releases the variable's fd or memory at the end of its scope, unless TAKE_FD or TAKE moved it
 * out. */
#define AUTO_CLOSE __attribute__((cleanup(close_fd_cleanup)))
#define AUTO_FREE __attribute__((cleanup(free_cleanup)))

#define TAKE_FD(fd)        \
    ({                     \
        int taken_ = (fd); \
        (fd) = -1;         \
        taken_;            \
    })
#define TAKE(ptr)                   \
    ({                              \
        typeof(ptr) taken_ = (ptr); \
        (ptr) = NULL;               \
        taken_;                     \
    })
