/* probe — one attempt to leave a sandbox per function, its expectation beside it.
 *
 *     PROBE(name, group, user, root, control) { ... return r; }
 *
 * The function returns what the attempt gave: 0 or more when it got through ("ok"), -errno when it was
 * refused, SAFE when nothing refused it and yet nothing came of it. It runs in a child of its own, so it
 * may lose its rights, its memory or its life: a signal's name is an outcome like any other.
 *
 * `user` and `root` list the outcomes that are right in these profiles, joined by `|`; "-" means that
 * the probe makes no sense there. `control` names a place where this wall is absent, and the outcome
 * that shows the attempt works there (":ok" when left out):
 *     host   root, outside                     user   uid 1000 without capabilities, outside
 *     ns     root with all capabilities in mount, pid, net, ipc, uts and cgroup namespaces of its own
 *     none   no such place can be had here; what follows the colon is the reason
 * An outcome that says "the kernel has no such thing" there makes the probe a skip, not a pass.
 * `group` chooses the sandbox's options (see `run`). */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAFE (-4096L)

struct probe {
    const char *name, *group, *user, *root, *control;
    long (*run)(void);
};

#define PROBE(name, group, user, root, control)                                                 \
    static long probe_##name(void);                                                             \
    static const struct probe entry_##name = {#name, group, user, root, control, probe_##name}; \
    static const struct probe *const link_##name                                                \
        __attribute__((section("probes"), used)) = &entry_##name;                               \
    static long probe_##name(void)

/* One system call whose arguments are constants: most of the catalogue. */
#define CALL(name, user_and_root, control, ...) \
    PROBE(name, "plain", user_and_root, user_and_root, control) { return call(__VA_ARGS__); }

#define call(...) call_((long[8]){__VA_ARGS__})
static inline long call_(const long a[8]) {
    long r = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    return r < 0 ? -errno : r;
}

/* Where the control runs, so that a probe can take its wall away itself. */
extern bool in_control;
/* The profile in which it runs, by the uid at the start. */
extern bool is_root;

/* Small helpers; all return -errno. */
long try_open(const char *path, int flags);            /* closes what it opened */
long try_read(const char *path);                       /* "ok" only if there is a byte to read */
long try_write(const char *path, const char *text);
long open_fd(const char *path, int flags);
const char *scratch(const char *name);                 /* a path in a writable directory */
const char *given(const char *name);                   /* what `run` tells through the environment */
bool file_has(const char *path, const char *text);
