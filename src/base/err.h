/* err — the cause of a failure, in one value that every protocol can encode.
 *
 * Functions in core, in api and in the guest's handlers return 0 or -number and fill a struct err
 * on the caller's stack. Layers below return -errno. Programs read `code`. `text` is for people and
 * may change. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/macros.h"

/* The canonical gRPC status codes, with the numbers that gRPC defines. */
enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

enum err_retry { RETRY_NEVER, RETRY_LATER, RETRY_CHECK };

enum err_code {
    ERR_NONE = 0, /* not a failure; err_set() asserts code != ERR_NONE */
#define ERR(name, number, grpc, http, retry, meaning) ERR_##name = (number),
#include "base/errors.def"
#undef ERR
};

/* One row of errors.def: how each protocol reports this error. */
struct err_face {
    const char *name;
    int number;
    enum grpc_code grpc;
    int http;
    enum err_retry retry;
    const char *meaning;
};

#define ERR_NUMBERS 2

/* A number that a program can act on, such as "next_offset". `key` is its name in the metadata. */
struct err_number {
    const char *key; /* NULL if unused */
    int64_t value;
};

struct err {
    enum err_code code;
    int sys;           /* errno that caused the error, or 0 */
    const char *limit; /* name of the limit that was reached, from limits.def; NULL if none */
    int64_t limit_value;
    /* kind of object: "sandbox_id", "exec_id" or "snapshot_id"; NULL if none */
    const char *subject;
    char subject_id[64]; /* id of that object */
    struct err_number numbers[ERR_NUMBERS];
    char field[96]; /* name of the invalid request field; empty if none */
    char text[240];
};

/* Returns NULL for ERR_NONE and for numbers that are not in errors.def. */
const struct err_face *err_face(enum err_code code);
const char *err_retry_name(enum err_retry retry);
const char *grpc_code_name(enum grpc_code code);

/* These functions fill `e` and return -code, so that a caller can fail in one line. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
int err_field(struct err *e, const char *field, const char *fmt, ...) PRINTF(3, 4);
int err_sys(struct err *e, enum err_code code, int sys, const char *fmt, ...) PRINTF(4, 5);

int err_limit(struct err *e, enum err_code code, enum limit_id limit, int64_t value,
              const char *fmt, ...) PRINTF(5, 6);

/* Records which object the error is about. Returns -code. */
int err_about(struct err *e, const char *key, const char *id);

/* Adds a number to the metadata, at most ERR_NUMBERS per error. Returns -code. */
int err_number(struct err *e, const char *key, int64_t value);

/* Keeps the code and puts the failed action in front of the text. Returns -code. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF(2, 3);
