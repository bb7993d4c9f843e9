/* file_answer — typed answers of the guest as messages of the public API.
 *
 * core/guest has validated the answers. Texts and lists are copied into the arena, because the
 * answer is borrowed for the callback only. Errors: OUT_OF_MEMORY when the arena is full. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "core/guest/guest_files.h"

int answer_no_memory(struct err *e);
/* Copies a text; an empty text becomes "". */
MUST_USE int answer_text(struct str text, struct arena *a, char **ret, struct err *e);
MUST_USE int answer_texts(const struct str *texts, size_t n, struct arena *a, size_t *ret_n,
                          char ***ret, struct err *e);
/* Sets ret_text, or ret_raw for a raw path. The other one stays empty. */
MUST_USE int answer_path(const struct guest_path *path, struct arena *a, char **ret_text,
                         ProtobufCBinaryData *ret_raw, struct err *e);
MUST_USE int answer_info(const struct guest_file_info *info, struct arena *a,
                         Berm__V1__FileInfo **ret, struct err *e);
MUST_USE int answer_infos(const struct guest_file_info *infos, size_t n, struct arena *a,
                          size_t *ret_n, Berm__V1__FileInfo ***ret, struct err *e);
