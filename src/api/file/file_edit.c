/* file_edit — EditFile. */
#include <stdio.h>

#include "api/checks.h"
#include "api/file/file_op.h"
#include "api/methods.h"

static int edit_check(struct file_op *op, struct err *e) {
    const Berm__V1__EditFileRequest *request = (const void *)op->mu.m;
    int64_t most = limit_table[LIMIT_EDIT_TEXT].value;
    uint64_t bytes = 0;
    if (request->n_edits == 0)
        return err_field(e, "edits", "edits: must have at least one edit");
    if (file_check_most("edits", request->n_edits, LIMIT_EDIT_COUNT,
                        limit_table[LIMIT_EDIT_COUNT].value, e) < 0)
        return -(int)e->code;
    for (size_t i = 0; i < request->n_edits; i++) {
        const Berm__V1__TextEdit *edit = request->edits[i];
        if (edit->old_text[0] == '\0') {
            err_set(e, ERR_INVALID_ARGUMENT, "edits[%zu].old_text: must not be empty", i);
            return err_at(e, "edits[%zu].old_text", i);
        }
        bytes += strlen(edit->old_text) + strlen(edit->new_text);
    }
    if (bytes <= (uint64_t)most)
        return 0;
    err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_EDIT_TEXT, most,
              "edits: old and new texts must have at most %lld bytes together", (long long)most);
    return err_at(e, "edits");
}

static void edit_put(struct file_op *op) {
    const Berm__V1__EditFileRequest *request = (const void *)op->mu.m;
    op->ask.edit.n_edits = request->n_edits;
    op->ask.edit.edits = request->edits;
}

static int edit_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__EditFileResponse *response = (void *)op->response;
    response->replacements = a->edit.replacements;
    op->audit.bytes_moved = a->info.size_bytes;
    return answer_info(&a->info, &op->arena, &response->info, e);
}

static void edit_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_EDIT,
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_EDIT,
        .is_change = true,
        .loss = FILE_LOSS_SAY,
        .check = edit_check,
        .put = edit_put,
        .read = edit_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_edit = {.on_message = edit_on_message, .on_cancel = mutation_cancel};
