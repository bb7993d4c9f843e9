/* file_names — StatFile, MakeDir, Remove, Rename. */
#include "api/file/file_op.h"
#include "api/methods.h"

/* --- StatFile --- */

static void put_stat(struct file_op *op) {
    op->ask.stat.follow = ((const Berm__V1__StatFileRequest *)op->m)->follow;
}

static int read_stat(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__StatFileResponse *response = (void *)op->response;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void on_stat(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {.method = GUEST_STAT, .put = put_stat, .read = read_stat};
    file_op_begin(c, m, &kind);
}

const struct handler api_file_stat = {.on_message = on_stat, .on_cancel = file_op_cancel};

/* --- MakeDir --- */

static int check_make(struct file_op *op, struct err *e) {
    return file_check_mode("mode.bits", ((const Berm__V1__MakeDirRequest *)op->m)->mode, e);
}

static void put_make(struct file_op *op) {
    const Berm__V1__MakeDirRequest *request = (const void *)op->m;
    op->ask.make.has_mode = request->mode != NULL;
    op->ask.make.mode = request->mode ? request->mode->bits : 0;
    op->ask.make.make_parents = request->make_parents;
}

static int read_make(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__MakeDirResponse *response = (void *)op->response;
    response->created = a->created;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void on_make(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_MKDIR,
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

static void put_remove(struct file_op *op) {
    const Berm__V1__RemoveRequest *request = (const void *)op->m;
    op->ask.remove.recursive = request->recursive;
    op->ask.remove.missing_ok = request->missing_ok || op->is_again;
}

static int read_remove(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__RemoveResponse *response = (void *)op->response;
    (void)e;
    response->removed = a->remove.removed;
    return 0;
}

static void on_remove(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_REMOVE,
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

static void put_rename(struct file_op *op) {
    const Berm__V1__RenameRequest *request = (const void *)op->m;
    op->ask.rename.new_path = file_target_path(&op->new_path);
    op->ask.rename.replace = request->replace;
    op->ask.rename.make_parents = request->make_parents;
}

/* A missing path may have been renamed by the first call. Then `stat` of its new name gives the same answer. */
static bool look_rename(struct file_op *op, const struct err *e) {
    if (e->code != ERR_FILE_NOT_FOUND)
        return false;
    op->is_again = false; /* once */
    file_call_ask(op->file, &(struct guest_file_request){.method = GUEST_STAT,
                                                         .path = file_target_path(&op->new_path),
                                                         .user = op->target.user});
    return true;
}

static int read_rename(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__RenameResponse *response = (void *)op->response;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void on_rename(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_RENAME,
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
