/* info — the file_info object that describes a file to the daemon. */
#pragma once

#include <sys/stat.h>

#include "base/json.h"
#include "guest/user.h"

/* Writes the object as a value. `dir` and `name` locate a symlink, to read its target; -1 and NULL: no target. */
void info_write(struct json_out *o, const char *path, const struct stat *st, int dir,
                const char *name, const struct user_names *names);
