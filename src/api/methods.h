/* methods — the rows of methods.def as a table, and what their handlers share. */
#pragma once

#include "api/api.h"

const struct api_methods *api_daemon_methods(void);

extern const struct handler api_system_ping;
extern const struct handler api_system_get_info;
extern const struct handler api_health_check;
extern const struct handler api_health_watch;
extern const struct handler api_reflection;

extern const struct handler api_sandbox_create;
extern const struct handler api_sandbox_get;
extern const struct handler api_sandbox_list;
extern const struct handler api_sandbox_update;
extern const struct handler api_sandbox_stop;
extern const struct handler api_sandbox_start;
extern const struct handler api_sandbox_pause;
extern const struct handler api_sandbox_resume;
extern const struct handler api_sandbox_delete;
extern const struct handler api_sandbox_delete_many;
extern const struct handler api_events_watch;
extern const struct handler api_usage_watch;

extern const struct handler api_exec_start;
extern const struct handler api_exec_run;
extern const struct handler api_exec_attach;
extern const struct handler api_exec_ack;
extern const struct handler api_exec_write_stdin;
extern const struct handler api_exec_close_stdin;
extern const struct handler api_exec_signal;
extern const struct handler api_exec_resize;
extern const struct handler api_exec_get;
extern const struct handler api_exec_list;
extern const struct handler api_exec_interact;

extern const struct handler api_file_read;
extern const struct handler api_file_write;
extern const struct handler api_file_watch;
extern const struct handler api_file_upload_tree;
extern const struct handler api_file_download_tree;
extern const struct handler api_file_stat;
extern const struct handler api_file_list;
extern const struct handler api_file_make_dir;
extern const struct handler api_file_remove;
extern const struct handler api_file_rename;
extern const struct handler api_file_edit;
extern const struct handler api_file_grep;
extern const struct handler api_file_glob;
