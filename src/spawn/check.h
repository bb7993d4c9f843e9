/* check — validates every request as if the client were hostile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "spawn/request.h"

/* Checks the fields of a CREATE and its n_fds descriptors; the size is already checked. Returns 0,
 * -EINVAL, or -ENOTSUP with the missing feature in *ret_missing. */
MUST_USE int check_create(const struct spawn_create *req, const int *fds, size_t n_fds,
                          uint32_t features, uint32_t *ret_missing);
/* Does the same for a CLAIM. */
MUST_USE int check_claim(const struct spawn_claim *req, const int *fds, size_t n_fds,
                         uint32_t features, uint32_t *ret_missing);
MUST_USE int check_limits(const struct spawn_limits *l, uint32_t features, uint32_t *ret_missing);

/* Returns whether the id has only lower-case letters, digits and hyphens, does not start with a
 * hyphen, and ends with NUL within the array. */
bool check_id(const char id[SPAWN_ID_MAX]);

/* The descriptors of a CREATE by meaning; -1 if absent. */
struct check_fds {
    int control;
    int stdio[3];
    int image;
    const int *binds;
};
struct check_fds check_split_fds(const struct spawn_create *req, const int *fds);
