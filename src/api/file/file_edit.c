/* file_edit — EditFile. */
#include <stdio.h>

#include "api/checks.h"
#include "api/file/file_op.h"
#include "api/methods.h"

static int check_edit(struct file_op *op, struct err *e) {
    const Berm__V1__EditFileRequest *request = (const void *)op->m;
    int64_t most = limit_table[LIMIT_EDIT_TEXT].value;
    uint64_t bytes = 0;
    if (request->n_edits == 0)
        return err_field(e, "edits", "edits: at least one is needed");
    if (file_check_most("edits", request->n_edits, LIMIT_EDIT_COUNT,
                        limit_table[LIMIT_EDIT_COUNT].value, e) < 0)
        return -(int)e->code;
    for (size_t i = 0; i < request->n_edits; i++) {
        const Berm__V1__TextEdit *edit = request->edits[i];
        if (edit->old_text[0] == '\0') {
            err_set(e, ERR_INVALID_ARGUMENT, "edits[%zu].old_text: a text to find is needed", i);
            return err_at(e, "edits[%zu].old_text", i);
        }
        bytes += strlen(edit->old_text) + strlen(edit->new_text);
    }
    if (bytes <= (uint64_t)most)
        return 0;
    err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_EDIT_TEXT, most,
              "edits: old and new texts of more than %lld bytes together", (long long)most);
    return err_at(e, "edits");
}

static void put_text(struct json_out *o, const char *key, const char *text) {
    json_key(o, key);
    json_base64(o, text, strlen(text));
}

static void put_edit(struct file_op *op, struct json_out *o) {
    const Berm__V1__EditFileRequest *request = (const void *)op->m;
    json_key(o, "edits");
    json_open(o, '[');
    for (size_t i = 0; i < request->n_edits; i++) {
        const Berm__V1__TextEdit *edit = request->edits[i];
        json_open(o, '{');
        put_text(o, "old_b64", edit->old_text);
        put_text(o, "new_b64", edit->new_text);
        json_put_bool(o, "replace_all", edit->replace_all);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static int read_edit(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__EditFileResponse *response = (void *)op->response;
    if (answer_u64(result, "replacements", &response->replacements, e) < 0 ||
        answer_info(result, "info", &op->arena, &response->info, e) < 0)
        return -(int)e->code;
    op->audit.bytes_moved = response->info->size_bytes;
    return 0;
}

static void on_edit(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "edit",
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_EDIT,
        .is_change = true,
        .loss = FILE_LOSS_SAY,
        .check = check_edit,
        .put = put_edit,
        .read = read_edit,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_edit = {.on_message = on_edit, .on_cancel = file_op_cancel};
