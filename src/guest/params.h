/* params — members of a request, taken with their bounds.
 *
 * Each answers 0 with the value, or fills `e` with INVALID_ARGUMENT and the member's name. An absent
 * member leaves what ret points at as it was, so the caller puts the default there first. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define PARAMS_OFFSET_MAX INT64_C(9007199254740991)

MUST_USE int params_str(const struct json *params, const char *name, size_t max, struct str *ret,
                        struct err *e);
MUST_USE int params_int(const struct json *params, const char *name, int64_t min, int64_t max,
                        int64_t *ret, struct err *e);
MUST_USE int params_bool(const struct json *params, const char *name, bool *ret, struct err *e);
/* The index of the string in `names`. */
MUST_USE int params_enum(const struct json *params, const char *name, const char *const *names,
                         size_t n_names, int *ret, struct err *e);
/* NULL when absent; fails when it is there with another type. */
MUST_USE int params_node(const struct json *params, const char *name, enum json_type type,
                         const struct json **ret, struct err *e);
/* An id of the contract: 1 to 48 of a-z, 0-9 and `-`, which stands at neither end. Required. */
MUST_USE int params_id(const struct json *params, const char *name, struct str *ret, struct err *e);
/* Decoded into the arena; an absent one is {NULL, 0}. */
MUST_USE int params_base64(const struct json *params, const char *name, struct arena *a,
                           size_t max_raw, struct str *ret, struct err *e);
int params_missing(const char *name, struct err *e);
/* A list of {key, value}: names as a shell has them, none twice, no NUL. Adds to *bytes. */
MUST_USE int params_env(const struct json *list, size_t max, size_t *bytes, struct err *e);
