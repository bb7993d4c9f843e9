/* checks — checks that several requests share, and errors that name a field.
 *
 * Each check answers 0, or -INVALID_ARGUMENT with the path of the field at fault. */
#pragma once

#include "api/call.h"
#include "berm/v1/berm.pb-c.h"

/* Adds the path of the field, formatted like printf, to an error. Returns -code. */
int err_at(struct err *e, const char *fmt, ...) PRINTF(2, 3);
/* Sets UNSUPPORTED with the formatted text and the path of the field. */
int err_unsupported(struct err *e, const char *field, const char *fmt, ...) PRINTF(3, 4);

/* IDS-1: checks the id of an existing object. */
MUST_USE int check_id(const char *field, const char *id, struct err *e);
/* IDS-2: checks the id that a caller chose for a new object; an empty id requests a generated
 * one. */
MUST_USE int check_new_id(const char *field, const char *id, struct err *e);
/* RPC-12: checks wait_ms. */
MUST_USE int check_wait(int64_t wait_ms, struct err *e);

/* SBX-17: checks labels that are to be stored, at most `max_count`. Refuses keys that Berm
 * reserves. */
MUST_USE int check_labels(const char *field, size_t n, Berm__V1__KeyValue *const *labels,
                          int64_t max_count, struct err *e);
/* Checks the labels of a selector. */
MUST_USE int check_selector(size_t n, Berm__V1__KeyValue *const *labels, struct err *e);
/* Checks the environment of a sandbox or an exec: at most *exec.env_count* variables, and in total
 * at most as many bytes as `size_limit` allows. */
MUST_USE int check_env(const char *field, size_t n, Berm__V1__KeyValue *const *env,
                       enum limit_id size_limit, struct err *e);
/* Checks an absolute path: no "." or "..", no double slash and no trailing slash. */
MUST_USE int check_clean_path(const char *field, const char *path, struct err *e);

/* Returns whether the labels contain all labels of the selector. */
bool labels_match(size_t n, Berm__V1__KeyValue *const *labels, size_t n_selector,
                  Berm__V1__KeyValue *const *selector);
