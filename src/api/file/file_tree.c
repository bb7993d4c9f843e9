#include "api/file/file_tree.h"

#include "api/file/file_answer.h"

static int read_failure(const struct json *error, struct err *ret, struct err *e) {
    const struct json *code = json_get(error, "code");
    const struct json *message = json_get(error, "message");
    if (!code || code->type != JSON_INT || code->integer < 1 || code->integer > 999 ||
        !err_face((enum err_code)code->integer) || !message || message->type != JSON_STRING)
        return answer_broken(e, "error");
    err_set(ret, (enum err_code)code->integer, "%.*s",
            (int)MIN(message->text.n, sizeof ret->text - 1), message->text.p);
    return 0;
}

int tree_outcome_read(const struct json *params, struct tree_outcome *ret, struct err *e) {
    const struct json *error = json_get(params, "error");
    *ret = (struct tree_outcome){0};
    if (error && read_failure(error, &ret->failure, e) < 0)
        return -(int)e->code;
    if (answer_u64(params, "files", &ret->files, e) < 0 ||
        answer_u64(params, "directories", &ret->directories, e) < 0 ||
        answer_u64(params, "total_bytes", &ret->total_bytes, e) < 0 ||
        answer_u64(params, "skipped_special", &ret->skipped_special, e) < 0)
        return -(int)e->code;
    return answer_u64(params, "skipped_unreadable", &ret->skipped_unreadable, e);
}

int tree_check_compression(const char *field, Berm__V1__TreeCompression compression,
                           struct err *e) {
    if (compression <= BERM__V1__TREE_COMPRESSION__TREE_COMPRESSION_GZIP)
        return 0;
    return err_field(e, field, "%s: no compression has the number %d", field, (int)compression);
}
