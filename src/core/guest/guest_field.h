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

/* Reads an optional member. An absent number is 0, an absent bool is false, an absent text is
 * empty. */
MUST_USE int guest_field_u64(const struct json *object, const char *key, uint64_t *ret,
                             struct err *e);
MUST_USE int guest_field_u32(const struct json *object, const char *key, uint32_t max,
                             uint32_t *ret, struct err *e);
MUST_USE int guest_field_bool(const struct json *object, const char *key, bool *ret, struct err *e);
/* Reads an optional text. Refuses a text that contains a NUL. */
MUST_USE int guest_field_text(const struct json *object, const char *key, struct str *ret,
                              struct err *e);
/* Reads a required number above 0: a handle or the id of a watch. */
MUST_USE int guest_field_id(const struct json *object, const char *key, uint64_t *ret,
                            struct err *e);
/* Reads a required exec id: 1 to 48 characters, as in guest.schema.json. */
MUST_USE int guest_field_exec_id(const struct json *object, struct str *ret, struct err *e);
/* Reads an optional list of texts. An absent list is empty. */
MUST_USE int guest_field_texts(const struct json *object, const char *key, size_t max_items,
                               struct arena *a, size_t *ret_n, const struct str **ret,
                               struct err *e);
/* Decodes a required base64 text of at most max_bytes decoded bytes. */
MUST_USE int guest_field_bytes(const struct json *object, const char *key, size_t max_bytes,
                               struct arena *a, struct str *ret, struct err *e);
/* Reads a path from `key` or `key`_b64. Refuses an object that has both. If both are absent, the
 * path is empty. */
MUST_USE int guest_field_path(const struct json *object, const char *key, struct arena *a,
                              struct guest_path *ret, struct err *e);
/* Reads a required text that must be one of the words, and returns its index. */
MUST_USE int guest_field_word(const struct json *object, const char *key, const char *const *words,
                              size_t n_words, int *ret, struct err *e);
/* Returns a required list. Returns NULL and sets `e` if the list is missing or longer than
 * max_items. */
const struct json *guest_field_list(const struct json *object, const char *key, size_t max_items,
                                    struct err *e);
/* Reads an error object of a notification. */
MUST_USE int guest_field_error(const struct json *error, struct err *ret, struct err *e);
/* Reads the metadata of the file or directory that a path names. */
MUST_USE int guest_field_info(const struct json *node, struct arena *a, struct guest_file_info *ret,
                              struct err *e);
/* Writes the path into a request as `key`, or as `key`_b64 if it is a raw path. */
void guest_field_put_path(struct json_out *o, const char *key, const struct guest_path *path);
/* Writes the list `env` into a request. */
void guest_field_put_env(struct json_out *o, size_t n, Berm__V1__KeyValue *const *env);
