/* info — the file_info object that describes a file to the daemon. */
#pragma once

#include <sys/stat.h>

#include "base/json.h"
#include "guest/user.h"

/* Writes the object. readlinkat(dir, name) gives the target of a symlink; name NULL: write no target. */
void info_write(struct json_out *o, const char *path, const struct stat *st, int dir,
                const char *name, const struct user_names *names);
/* Writes the member `info`. `fd` is an O_PATH descriptor of the file, for the target of a symlink; -1: write
 * no target. Loads the names of users and groups, which a child that exits soon does not free. */
void info_put(struct json_out *o, const char *path, const struct stat *st, int fd);
