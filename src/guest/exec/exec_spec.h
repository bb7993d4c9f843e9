/* exec_spec — the parameters of an `exec` request, checked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "guest/exec/launch.h"
#include "guest/user.h"

struct request;

/* The roles of descriptors that come with the request. */
enum exec_role { ROLE_STDOUT, ROLE_STDERR, ROLE_STATUS, ROLE_CGROUP, ROLE_EXEC_CGROUP, ROLE_COUNT };

struct exec_spec {
    struct launch launch;
    struct user user;
    struct str user_name;
    bool has_terminal;
    int64_t cols, rows;
    struct str term;
    bool has_pipe; /* stdin is a pipe */
    int64_t timeout_ms, grace_ms;
    int policy; /* enum exec_policy */
    int64_t limit_bytes;
    bool merge_stderr;
    bool keep_descendants;
    int fds[ROLE_COUNT]; /* still owned by the request; -1: absent */
    size_t bytes;        /* total size of argv, env and cwd */
};

/* Returns whether stdout and stderr share one log and one stream. */
static inline bool exec_spec_is_merged(const struct exec_spec *s) {
    return s->has_terminal || s->merge_stderr;
}

/* Reads everything that depends on the request alone. Fails with INVALID_ARGUMENT, LIMIT_REACHED or
 * OUT_OF_MEMORY. */
MUST_USE int exec_spec_read(struct request *r, struct exec_spec *s, struct err *e);
/* Adds what depends on the sandbox: the user, the environment, and the candidate paths of the
 * program. Fails with USER_NOT_FOUND, INVALID_ARGUMENT, LIMIT_REACHED or OUT_OF_MEMORY. */
MUST_USE int exec_spec_resolve(struct request *r, struct exec_spec *s, struct err *e);
