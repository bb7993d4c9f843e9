/* file_answer — what a guest says about files, as messages of the contract.
 *
 * Nothing of it is believed: what is missing or cannot be is GUEST_PROTOCOL. Texts and lists go to the
 * arena; LIMIT_REACHED when that is full. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "berm/v1/berm.pb-c.h"

/* An absent number is 0, an absent bool false, an absent text "". */
MUST_USE int answer_u64(const struct json *object, const char *key, uint64_t *ret, struct err *e);
MUST_USE int answer_bool(const struct json *object, const char *key, protobuf_c_boolean *ret,
                         struct err *e);
MUST_USE int answer_text(const struct json *object, const char *key, struct arena *a, char **ret,
                         struct err *e);
/* An absent list is empty. */
MUST_USE int answer_texts(const struct json *object, const char *key, struct arena *a,
                          size_t *ret_n, char ***ret, struct err *e);
/* `key` or `key`_b64; an absent one leaves both empty. */
MUST_USE int answer_path(const struct json *object, const char *key, struct arena *a,
                         char **ret_text, ProtobufCBinaryData *ret_raw, struct err *e);
/* The index of a word, 0 for the first. */
MUST_USE int answer_word(const struct json *object, const char *key, const char *const *words,
                         size_t n_words, int *ret, struct err *e);
/* The object `key`, which must be there. */
MUST_USE int answer_info(const struct json *object, const char *key, struct arena *a,
                         Berm__V1__FileInfo **ret, struct err *e);
/* The list `key` of them. */
MUST_USE int answer_infos(const struct json *object, const char *key, struct arena *a,
                          size_t *ret_n, Berm__V1__FileInfo ***ret, struct err *e);
/* The list `key`, which must be there; NULL and `e` if it is none. */
const struct json *answer_list(const struct json *object, const char *key, struct err *e);
int answer_broken(struct err *e, const char *key);
int answer_no_memory(struct err *e);
/* Why an answer lacks something. */
MUST_USE int answer_truncated(const struct json *object, Berm__V1__TruncatedReason *ret,
                              struct err *e);
