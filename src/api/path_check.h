/* path_check — paths as callers give them: PATH-1 to PATH-4. What they name is the sandbox's to say. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"
#include "base/str.h"

/* A path that was checked, borrowed from its request. */
struct path_arg {
    struct str path;
    bool is_raw;     /* it came in raw_path */
    bool is_default; /* none was given: the workspace */
};

/* Exactly one of `text` and `raw` is to be given. `name` is the field's, such as "new_path", and that of the
 * other "raw_" and it; `prefix` stands before both, such as "header.". */
MUST_USE int path_check(const char *prefix, const char *name, const char *text,
                        ProtobufCBinaryData raw, struct path_arg *ret, struct err *e);
/* The same where none stands for the workspace. */
MUST_USE int path_check_or_workspace(const char *name, const char *text, ProtobufCBinaryData raw,
                                     struct path_arg *ret, struct err *e);
