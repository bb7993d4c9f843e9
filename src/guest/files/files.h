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

/* Work of the child. */
work_fn work_list;
work_fn work_remove;
