/* file_target — the fields that every file request has: sandbox, path and user. */
#pragma once

#include "api/context.h"
#include "api/path_check.h"
#include "core/files/files.h"

#define FILE_USER_MAX 64

/* The common fields of a file request, borrowed from it. */
struct file_target {
    const char *prefix; /* put before field names in errors: "" or "header." */
    const char *sandbox_id;
    uint64_t incarnation;
    struct path_arg path;
    const char *user;
};

/* Reads sandbox_id, incarnation, path, raw_path and user of `m`. `or_workspace`: the path may be
 * left out. */
MUST_USE int file_target_read(struct file_target *t, const ProtobufCMessage *m, const char *prefix,
                              bool or_workspace, struct err *e);
/* Finds the sandbox and opens a call to its guest. */
MUST_USE int file_target_open(const struct file_target *t, const struct call *c, bool with_handle,
                              const struct file_events *events, void *user, struct file_call **ret,
                              struct err *e);
/* Returns a request to the guest with the path and the user set; file_call_ask sends it. */
struct guest_file_request file_target_request(const struct file_target *t,
                                              enum guest_file_method method);
static inline struct guest_path file_target_path(const struct path_arg *path) {
    return (struct guest_path){path->path, path->is_raw};
}
/* Returns the guest's error as the caller gets it, with the sandbox and the fields of the request.
 * A code that a guest cannot report becomes GUEST_PROTOCOL. */
struct err file_target_error(const char *prefix, const char *sandbox_id, const struct err *e);

/* Returns a pointer to the field of `m` that has this name. */
const void *file_field(const ProtobufCMessage *m, const char *name);
/* Checks the permission bits; `mode` may be NULL. */
MUST_USE int file_check_mode(const char *field, const Berm__V1__FileMode *mode, struct err *e);
/* Checks that `value` is at most `most`, which is the value of `limit`. */
MUST_USE int file_check_most(const char *field, uint64_t value, enum limit_id limit, int64_t most,
                             struct err *e);
