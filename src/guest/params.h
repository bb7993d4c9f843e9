/* params — reads the members of a request and checks their bounds.
 *
 * Each function returns 0, or fails with INVALID_ARGUMENT and the name of the member. For an absent member
 * it returns 0 and leaves *ret unchanged, so the caller stores the default there first. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define PARAMS_OFFSET_MAX INT64_C(9007199254740991)

MUST_USE int params_str(const struct json *params, const char *name, size_t max, struct str *ret,
                        struct err *e);
MUST_USE int params_int(const struct json *params, const char *name, int64_t min, int64_t max,
                        int64_t *ret, struct err *e);
/* Does the same, but fails for an absent member. */
MUST_USE int params_need_int(const struct json *params, const char *name, int64_t min, int64_t max,
                             int64_t *ret, struct err *e);
MUST_USE int params_bool(const struct json *params, const char *name, bool *ret, struct err *e);
/* Stores the index of the string in `names`. */
MUST_USE int params_enum(const struct json *params, const char *name, const char *const *names,
                         size_t n_names, int *ret, struct err *e);
/* Stores NULL for an absent member; fails for another type. */
MUST_USE int params_node(const struct json *params, const char *name, enum json_type type,
                         const struct json **ret, struct err *e);
/* Reads an id: 1 to 48 characters of a-z, 0-9 and `-`, without `-` at either end. Fails for an absent one. */
MUST_USE int params_id(const struct json *params, const char *name, struct str *ret, struct err *e);
/* Decodes into the arena. Stores {NULL, 0} for an absent member. */
MUST_USE int params_base64(const struct json *params, const char *name, struct arena *a,
                           size_t max_raw, struct str *ret, struct err *e);
/* Fails because a required member is absent. */
int params_missing(const char *name, struct err *e);
/* Checks a list of {key, value}: each key is a shell variable name and unique, no value contains NUL. Adds
 * the size of the list as an environment to *bytes. */
MUST_USE int params_env(const struct json *list, size_t max, size_t *bytes, struct err *e);
