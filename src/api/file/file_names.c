/* file_names — StatFile, MakeDir, Remove, Rename. */
#include "api/file/file_op.h"
#include "api/methods.h"

/* --- StatFile --- */

static void stat_put(struct file_op *op) {
    op->ask.stat.follow = ((const Berm__V1__StatFileRequest *)op->mu.m)->follow;
}

static int stat_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__StatFileResponse *response = (void *)op->response;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void stat_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {.method = GUEST_STAT, .put = stat_put, .read = stat_read};
    file_op_begin(c, m, &kind);
}

const struct handler api_file_stat = {.on_message = stat_on_message, .on_cancel = mutation_cancel};

/* --- MakeDir --- */

static int make_dir_check(struct file_op *op, struct err *e) {
    return file_check_mode("mode.bits", ((const Berm__V1__MakeDirRequest *)op->mu.m)->mode, e);
}

static void make_dir_put(struct file_op *op) {
    const Berm__V1__MakeDirRequest *request = (const void *)op->mu.m;
    op->ask.make.has_mode = request->mode != NULL;
    op->ask.make.mode = request->mode ? request->mode->bits : 0;
    op->ask.make.make_parents = request->make_parents;
}

static int make_dir_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__MakeDirResponse *response = (void *)op->response;
    response->created = a->created;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void make_dir_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_MKDIR,
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_MAKE_DIR,
        .is_change = true,
        .check = make_dir_check,
        .put = make_dir_put,
        .read = make_dir_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_make_dir = {.on_message = make_dir_on_message,
                                          .on_cancel = mutation_cancel};

/* --- Remove --- */

static void remove_put(struct file_op *op) {
    const Berm__V1__RemoveRequest *request = (const void *)op->mu.m;
    op->ask.remove.recursive = request->recursive;
    op->ask.remove.missing_ok = request->missing_ok || op->is_again;
}

static int remove_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__RemoveResponse *response = (void *)op->response;
    (void)e;
    response->removed = a->remove.removed;
    return 0;
}

static void remove_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_REMOVE,
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_REMOVE,
        .is_change = true,
        .loss = FILE_LOSS_LOOK,
        .put = remove_put,
        .read = remove_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_remove = {.on_message = remove_on_message,
                                        .on_cancel = mutation_cancel};

/* --- Rename --- */

static int rename_check(struct file_op *op, struct err *e) {
    const Berm__V1__RenameRequest *request = (const void *)op->mu.m;
    return path_check("", "new_path", request->new_path, request->raw_new_path, &op->new_path, e);
}

static void rename_put(struct file_op *op) {
    const Berm__V1__RenameRequest *request = (const void *)op->mu.m;
    op->ask.rename.new_path = file_target_path(&op->new_path);
    op->ask.rename.replace = request->replace;
    op->ask.rename.make_parents = request->make_parents;
}

/* If the path is missing, the first call may already have renamed it. Then `stat` of the new name
 * gives the same answer as the rename. */
static bool rename_look(struct file_op *op, const struct err *e) {
    if (e->code != ERR_FILE_NOT_FOUND)
        return false;
    op->is_again = false; /* look only once */
    file_call_ask(op->file, &(struct guest_file_request){.method = GUEST_STAT,
                                                         .path = file_target_path(&op->new_path),
                                                         .user = op->target.user});
    return true;
}

static int rename_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__RenameResponse *response = (void *)op->response;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void rename_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_RENAME,
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_RENAME,
        .is_change = true,
        .loss = FILE_LOSS_LOOK,
        .check = rename_check,
        .put = rename_put,
        .look = rename_look,
        .read = rename_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_rename = {.on_message = rename_on_message,
                                        .on_cancel = mutation_cancel};
