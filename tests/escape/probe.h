/* probe — one escape attempt per function, with its expected outcome.
 *
 *     PROBE(name, group, user, root, control) { ... return r; }
 *
 * The function returns the result of the attempt: 0 or more when it succeeded ("ok"), -errno when
 * it was refused, SAFE when it had no effect. It runs in its own child, so it may lose its rights,
 * its memory or its life: the name of a signal is an outcome too.
 *
 * `user` and `root` list the expected outcomes in these profiles, joined by `|`; "-" means that the
 * probe does not apply. `control` names an environment without this protection, and the outcome
 * that shows that the attempt works there (default ":ok"):
 *     host   root, outside
 *     user   uid 1000 without capabilities, outside
 *     ns     root with all capabilities in new mount, pid, net, ipc, uts and cgroup namespaces
 *     none   no such environment is possible; the reason follows the colon
 * If the outcome there is "not supported by the kernel", the probe is skipped, not passed. `group`
 * chooses the sandbox's options (see `run`). */
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

/* A single system call with constant arguments: most probes. */
#define CALL(name, user_and_root, control, ...) \
    PROBE(name, "plain", user_and_root, user_and_root, control) { return call(__VA_ARGS__); }

#define call(...) call_((long[8]){__VA_ARGS__})
static inline long call_(const long a[8]) {
    long r = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    return r < 0 ? -errno : r;
}

/* Set while the control runs, so that a probe can remove its protection itself. */
extern bool in_control;
/* The profile, derived from the uid at start. */
extern bool is_root;

/* Small helpers. All return -errno. */
long try_open(const char *path, int flags);            /* closes the file again */
long try_read(const char *path);                       /* "ok" only if there is a byte to read */
long try_write(const char *path, const char *text);
long open_fd(const char *path, int flags);
const char *scratch(const char *name);                 /* a path in a writable directory */
/* a value that `run` passes in the environment */
const char *given(const char *name);
bool file_has(const char *path, const char *text);
