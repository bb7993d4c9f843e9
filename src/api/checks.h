/* checks — checks that several requests share, and errors that name a field.
 *
 * Each check answers 0, or -INVALID_ARGUMENT with the path of the field at fault. */
#pragma once

#include "api/call.h"
#include "berm/v1/berm.pb-c.h"

/* Put the field's path, made as by printf, into an error that has its text. Returns -code. */
int err_at(struct err *e, const char *fmt, ...) PRINTF(2, 3);
/* UNSUPPORTED: `what` is named in the text, the field in the details. */
int err_unsupported(struct err *e, const char *field, const char *fmt, ...) PRINTF(3, 4);

/* IDS-1: an id that names something. */
MUST_USE int check_id(const char *field, const char *id, struct err *e);
/* IDS-2: an id a caller chose for something new; empty asks for a generated one. */
MUST_USE int check_new_id(const char *field, const char *id, struct err *e);
/* RPC-12 */
MUST_USE int check_wait(int64_t wait_ms, struct err *e);

/* SBX-17: labels to be kept; at most `max_count` of them. Keys of Berm's own are refused. */
MUST_USE int check_labels(const char *field, size_t n, Berm__V1__KeyValue *const *labels,
                          int64_t max_count, struct err *e);
/* Labels to look for. */
MUST_USE int check_selector(size_t n, Berm__V1__KeyValue *const *labels, struct err *e);
/* The environment of a sandbox or a program: at most *exec.env_count*, `max_bytes` together. */
MUST_USE int check_env(const char *field, size_t n, Berm__V1__KeyValue *const *env,
                       enum limit_id size_limit, struct err *e);
/* An absolute path without "." and "..", doubled slashes or one at its end. */
MUST_USE int check_clean_path(const char *field, const char *path, struct err *e);

/* Do the labels bear all of the selector? */
bool labels_match(size_t n, Berm__V1__KeyValue *const *labels, size_t n_selector,
                  Berm__V1__KeyValue *const *selector);
