/* path_check — checks the form of paths in requests: PATH-1 to PATH-4. The guest resolves them
 * later. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "base/str.h"

/* A path that was checked, borrowed from its request. */
struct path_arg {
    struct str path;
    bool is_raw;     /* the request used raw_path */
    bool is_default; /* the request has no path, which stands for the workspace */
};

/* Checks a path. Exactly one of `text` and `raw` must be set. Errors name the field: `name` is the
 * name of the text field, such as "new_path", and the raw field is called "raw_" followed by
 * `name`. `prefix`, such as "header.", precedes both. */
MUST_USE int path_check(const char *prefix, const char *name, const char *text,
                        ProtobufCBinaryData raw, struct path_arg *ret, struct err *e);
/* Like path_check, but accepts an empty path, which stands for the workspace. */
MUST_USE int path_check_or_workspace(const char *name, const char *text, ProtobufCBinaryData raw,
                                     struct path_arg *ret, struct err *e);
