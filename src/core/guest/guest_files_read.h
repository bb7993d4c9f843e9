/* guest_files_read — results of the file methods, validated into struct guest_file_answer.
 *
 * Sets ret->file, which is in the arena. Errors: as guest_field says. */
#pragma once

#include "core/guest/guest_files.h"

MUST_USE int guest_files_read(const struct guest_wait *w, const struct json *result,
                              struct arena *a, struct guest_answer *ret, struct err *e);
