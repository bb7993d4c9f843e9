/* files — the file requests of the daemon. A job runs each as the sandbox user.
 *
 * files.c moves contents (read, write, commit, chunks), names.c handles stat, mkdir and rename, and the other
 * files hold one request each. */
#pragma once

#include "base/err.h"
#include "guest/jobs.h"

struct request;

int files_method_read(struct request *r, struct err *e);
int files_method_write(struct request *r, struct err *e);
int files_method_commit(struct request *r, struct err *e);
int files_method_close(struct request *r, struct err *e);
int files_method_read_chunk(struct request *r, struct err *e);
int files_method_write_chunk(struct request *r, struct err *e);
int files_method_sync(struct request *r, struct err *e);
int names_method_stat(struct request *r, struct err *e);
int names_method_mkdir(struct request *r, struct err *e);
int names_method_rename(struct request *r, struct err *e);
int lines_method(struct request *r, struct err *e);
int edit_method(struct request *r, struct err *e);
int list_method(struct request *r, struct err *e);
int remove_method(struct request *r, struct err *e);

/* An on_result that makes a handle of the first descriptor and replies with the handle and the members. */
job_result_fn files_reply_opened;
