/* check — every request is read as if the asker were hostile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "spawn/request.h"

/* The fields of a CREATE that has the right size: 0, -EINVAL, or -ENOTSUP for what is named in
 * *ret_missing. n_fds descriptors came with it. */
MUST_USE int check_create(const struct spawn_create *req, const int *fds, size_t n_fds,
                          uint32_t features, uint32_t *ret_missing);
/* The same for a CLAIM. */
MUST_USE int check_claim(const struct spawn_claim *req, const int *fds, size_t n_fds,
                         uint32_t features, uint32_t *ret_missing);
MUST_USE int check_limits(const struct spawn_limits *l, uint32_t features, uint32_t *ret_missing);

/* Lower-case letters, digits and hyphens, starting with one of the former two, NUL within the
 * array. */
bool check_id(const char id[SPAWN_ID_MAX]);

/* Where a CREATE's descriptors stand; -1 where it has none. */
struct check_fds {
    int control;
    int stdio[3];
    int image;
    const int *binds;
};
struct check_fds check_split_fds(const struct spawn_create *req, const int *fds);
