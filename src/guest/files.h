/* files — the daemon's file requests. Each is worked on by a job as the sandbox user; files.c has the
 * requests about contents and handles, names.c those about names, list.c and remove.c whole trees. */
#pragma once

#include <sys/stat.h>

#include "guest/guest.h"

int files_method_read(struct request *r, struct err *e);
int files_method_write(struct request *r, struct err *e);
int files_method_commit(struct request *r, struct err *e);
int files_method_close(struct request *r, struct err *e);
int files_method_read_chunk(struct request *r, struct err *e);
int files_method_write_chunk(struct request *r, struct err *e);
int files_method_read_lines(struct request *r, struct err *e);
int files_method_edit(struct request *r, struct err *e);
int files_method_list(struct request *r, struct err *e);
int files_method_stat(struct request *r, struct err *e);
int files_method_mkdir(struct request *r, struct err *e);
int files_method_remove(struct request *r, struct err *e);
int files_method_rename(struct request *r, struct err *e);
int files_method_sync(struct request *r, struct err *e);

/* An on_result: makes a handle of the first descriptor and answers with it and the members. */
job_result_fn files_answer_opened;

/* In the child. */
/* A file_info object; `dir` and `name` are for a symlink's target and may be -1 and NULL. */
void info_write(struct json_out *o, const char *path, const struct stat *st, int dir,
                const char *name, const struct user_names *names);
/* "info": that of a path, links not followed; fails as the kernel says. */
MUST_USE int info_put(struct work *w, const char *path, bool follow, struct err *e);
/* Writes "path" or "path_b64", as its bytes are. */
void path_write(struct json_out *o, const char *key, const char *path);
/* Takes empty names and `.` out of an absolute path, in place. */
void path_clean(char *path);
/* Makes every missing directory above the last name. -errno. */
MUST_USE int path_make_parents(const char *path, struct arena *a);
work_fn work_list;
work_fn work_remove;
