/* file_names — StatFile, MakeDir, Remove, Rename. */
#include "api/file/file_op.h"
#include "api/methods.h"

/* --- StatFile --- */

static void put_stat(struct file_op *op, struct json_out *o) {
    json_put_bool(o, "follow", ((const Berm__V1__StatFileRequest *)op->m)->follow);
}

static int read_stat(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__StatFileResponse *response = (void *)op->response;
    return answer_info(result, "info", &op->arena, &response->info, e);
}

static void on_stat(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {.method = "stat", .put = put_stat, .read = read_stat};
    file_op_begin(c, m, &kind);
}

const struct handler api_file_stat = {.on_message = on_stat, .on_cancel = file_op_cancel};

/* --- MakeDir --- */

static int check_make(struct file_op *op, struct err *e) {
    return file_check_mode("mode.bits", ((const Berm__V1__MakeDirRequest *)op->m)->mode, e);
}

static void put_make(struct file_op *op, struct json_out *o) {
    const Berm__V1__MakeDirRequest *request = (const void *)op->m;
    if (request->mode)
        json_put_u64(o, "mode", request->mode->bits);
    json_put_bool(o, "make_parents", request->make_parents);
}

static int read_make(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__MakeDirResponse *response = (void *)op->response;
    int r = answer_info(result, "info", &op->arena, &response->info, e);
    return r < 0 ? r : answer_bool(result, "created", &response->created, e);
}

static void on_make(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "mkdir",
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_MAKE_DIR,
        .is_change = true,
        .check = check_make,
        .put = put_make,
        .read = read_make,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_make_dir = {.on_message = on_make, .on_cancel = file_op_cancel};

/* --- Remove --- */

static void put_remove(struct file_op *op, struct json_out *o) {
    const Berm__V1__RemoveRequest *request = (const void *)op->m;
    json_put_bool(o, "recursive", request->recursive);
    json_put_bool(o, "missing_ok", request->missing_ok || op->is_again);
}

static int read_remove(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__RemoveResponse *response = (void *)op->response;
    return answer_u64(result, "removed", &response->removed, e);
}

static void on_remove(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "remove",
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_REMOVE,
        .is_change = true,
        .loss = FILE_LOSS_LOOK,
        .put = put_remove,
        .read = read_remove,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_remove = {.on_message = on_remove, .on_cancel = file_op_cancel};

/* --- Rename --- */

static int check_rename(struct file_op *op, struct err *e) {
    const Berm__V1__RenameRequest *request = (const void *)op->m;
    return path_check("", "new_path", request->new_path, request->raw_new_path, &op->new_path, e);
}

static void put_rename(struct file_op *op, struct json_out *o) {
    const Berm__V1__RenameRequest *request = (const void *)op->m;
    path_put(o, "new_path", &op->new_path);
    json_put_bool(o, "replace", request->replace);
    json_put_bool(o, "make_parents", request->make_parents);
}

/* What is not there may have been renamed: then it has its new name, as the same answer says. */
static bool look_rename(struct file_op *op, const struct err *e) {
    if (e->code != ERR_FILE_NOT_FOUND)
        return false;
    op->is_again = false; /* once */
    struct file_target there = op->target;
    there.path = op->new_path;
    file_target_ask(&there, op->file, "stat");
    file_call_send(op->file);
    return true;
}

static int read_rename(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__RenameResponse *response = (void *)op->response;
    return answer_info(result, "info", &op->arena, &response->info, e);
}

static void on_rename(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "rename",
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_RENAME,
        .is_change = true,
        .loss = FILE_LOSS_LOOK,
        .check = check_rename,
        .put = put_rename,
        .look = look_rename,
        .read = read_rename,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_rename = {.on_message = on_rename, .on_cancel = file_op_cancel};
