#include "api/methods.h"

#include "berm/v1/berm.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"

#define HANDLER_NONE NULL
#define HANDLER_api_system_ping &api_system_ping
#define HANDLER_api_system_get_info &api_system_get_info
#define HANDLER_api_health_check &api_health_check
#define HANDLER_api_sandbox_create &api_sandbox_create
#define HANDLER_api_sandbox_get &api_sandbox_get
#define HANDLER_api_sandbox_list &api_sandbox_list
#define HANDLER_api_sandbox_update &api_sandbox_update
#define HANDLER_api_sandbox_stop &api_sandbox_stop
#define HANDLER_api_sandbox_start &api_sandbox_start
#define HANDLER_api_sandbox_pause &api_sandbox_pause
#define HANDLER_api_sandbox_resume &api_sandbox_resume
#define HANDLER_api_sandbox_delete &api_sandbox_delete
#define HANDLER_api_sandbox_delete_many &api_sandbox_delete_many
#define HANDLER_api_events_watch &api_events_watch
#define HANDLER_api_usage_watch &api_usage_watch
#define HANDLER_api_health_watch &api_health_watch
#define HANDLER_api_reflection &api_reflection
#define HANDLER_api_exec_start &api_exec_start
#define HANDLER_api_exec_run &api_exec_run
#define HANDLER_api_exec_attach &api_exec_attach
#define HANDLER_api_exec_ack &api_exec_ack
#define HANDLER_api_exec_write_stdin &api_exec_write_stdin
#define HANDLER_api_exec_close_stdin &api_exec_close_stdin
#define HANDLER_api_exec_signal &api_exec_signal
#define HANDLER_api_exec_resize &api_exec_resize
#define HANDLER_api_exec_get &api_exec_get
#define HANDLER_api_exec_list &api_exec_list
#define HANDLER_api_exec_interact &api_exec_interact
#define HANDLER_api_file_read &api_file_read
#define HANDLER_api_file_write &api_file_write
#define HANDLER_api_file_stat &api_file_stat
#define HANDLER_api_file_list &api_file_list
#define HANDLER_api_file_make_dir &api_file_make_dir
#define HANDLER_api_file_remove &api_file_remove
#define HANDLER_api_file_rename &api_file_rename
#define HANDLER_api_file_watch &api_file_watch
#define HANDLER_api_file_upload_tree &api_file_upload_tree
#define HANDLER_api_file_download_tree &api_file_download_tree
#define HANDLER_api_file_edit &api_file_edit
#define HANDLER_api_file_grep &api_file_grep
#define HANDLER_api_file_glob &api_file_glob

const struct api_methods *api_daemon_methods(void) {
    static const struct method rows[] = {
#define METHOD(service, name, req, res, kind, scope, handler) \
    {STR("/" service "/" name),                               \
     &req##__descriptor,                                      \
     &res##__descriptor,                                      \
     METHOD_##kind,                                           \
     SCOPE_##scope,                                           \
     HANDLER_##handler},
#include "api/methods.def"
#undef METHOD
    };
    static const struct api_methods table = {rows, COUNT_OF(rows)};
    return &table;
}
