/* guest_field — members of the guest's JSON objects, validated.
 *
 * The guest is hostile, so a member of the wrong type or out of range is GUEST_PROTOCOL. Where
 * memory runs out the error is GUEST_LOST, because the answer is lost with it. Results are written
 * only on success.
 * Memory: texts are slices of the message; lists and decoded bytes are in the arena of the
 *         message. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "core/guest/guest_files.h"

int guest_field_bad(struct err *e, const char *key);
int guest_field_no_memory(struct err *e);

/* An absent number is 0, an absent bool is false, an absent text is empty. */
MUST_USE int guest_field_u64(const struct json *object, const char *key, uint64_t *ret,
                             struct err *e);
MUST_USE int guest_field_u32(const struct json *object, const char *key, uint32_t max,
                             uint32_t *ret, struct err *e);
MUST_USE int guest_field_bool(const struct json *object, const char *key, bool *ret, struct err *e);
/* Refuses a NUL inside the text. */
MUST_USE int guest_field_text(const struct json *object, const char *key, struct str *ret,
                              struct err *e);
/* A number above 0 that must be present: a handle or the id of a watch. */
MUST_USE int guest_field_id(const struct json *object, const char *key, uint64_t *ret,
                            struct err *e);
/* The id of an exec, which must be present: 1 to 48 characters as guest.schema.json says. */
MUST_USE int guest_field_exec_id(const struct json *object, struct str *ret, struct err *e);
/* An absent list is empty. */
MUST_USE int guest_field_texts(const struct json *object, const char *key, size_t max_items,
                               struct arena *a, size_t *ret_n, const struct str **ret,
                               struct err *e);
/* Base64 in a text that must be present and decode to at most max_bytes. */
MUST_USE int guest_field_bytes(const struct json *object, const char *key, size_t max_bytes,
                               struct arena *a, struct str *ret, struct err *e);
/* `key` or `key`_b64, not both; both absent: an empty path. */
MUST_USE int guest_field_path(const struct json *object, const char *key, struct arena *a,
                              struct guest_path *ret, struct err *e);
/* The index of a word, which must be present. */
MUST_USE int guest_field_word(const struct json *object, const char *key, const char *const *words,
                              size_t n_words, int *ret, struct err *e);
/* A list, which must be present. NULL, with `e` set, if it is missing or longer than max_items. */
const struct json *guest_field_list(const struct json *object, const char *key, size_t max_items,
                                    struct err *e);
/* An error object, which the guest puts into notifications. */
MUST_USE int guest_field_error(const struct json *error, struct err *ret, struct err *e);
/* What a path names. */
MUST_USE int guest_field_info(const struct json *node, struct arena *a, struct guest_file_info *ret,
                              struct err *e);
/* Puts `key`, or `key`_b64 for a raw path, into a request. */
void guest_field_put_path(struct json_out *o, const char *key, const struct guest_path *path);
/* Puts the list `env` into a request. */
void guest_field_put_env(struct json_out *o, size_t n, Berm__V1__KeyValue *const *env);
