/* file_search — Grep and Glob. */
#include <stdio.h>

#include "api/file/file_op.h"
#include "api/methods.h"

#define GREP_DEFAULT 1000
#define AROUND_MAX 20

static int check_pattern(const char *field, const char *pattern, struct err *e) {
    size_t n = strlen(pattern);
    return file_check_most(field, n, LIMIT_PATTERN_LENGTH, limit_table[LIMIT_PATTERN_LENGTH].value,
                           e);
}

static int check_needed(const char *pattern, uint32_t max_matches, struct err *e) {
    if (pattern[0] == '\0')
        return err_field(e, "pattern", "pattern: something to look for is needed");
    if (check_pattern("pattern", pattern, e) < 0)
        return -(int)e->code;
    return file_check_most("max_matches", max_matches, LIMIT_MATCHES_MAX,
                           limit_table[LIMIT_MATCHES_MAX].value, e);
}

/* --- Grep --- */

static int check_grep(struct file_op *op, struct err *e) {
    const Berm__V1__GrepRequest *request = (const void *)op->m;
    if (check_needed(request->pattern, request->max_matches, e) < 0 ||
        check_pattern("glob", request->glob, e) < 0)
        return -(int)e->code;
    if (request->before_lines > AROUND_MAX)
        return err_field(e, "before_lines", "before_lines: more than %d", AROUND_MAX);
    if (request->after_lines > AROUND_MAX)
        return err_field(e, "after_lines", "after_lines: more than %d", AROUND_MAX);
    return 0;
}

static void put_grep(struct file_op *op, struct json_out *o) {
    const Berm__V1__GrepRequest *request = (const void *)op->m;
    json_put_str(o, "pattern", str_of(request->pattern));
    json_put_bool(o, "regex", request->regex);
    json_put_bool(o, "ignore_case", request->ignore_case);
    if (request->glob[0] != '\0')
        json_put_str(o, "glob", str_of(request->glob));
    json_put_u64(o, "max_matches", request->max_matches > 0 ? request->max_matches : GREP_DEFAULT);
    json_put_u64(o, "before_lines", request->before_lines);
    json_put_u64(o, "after_lines", request->after_lines);
}

static int read_match(const struct json *node, struct arena *a, Berm__V1__GrepMatch **ret,
                      struct err *e) {
    Berm__V1__GrepMatch *match = arena_alloc(a, sizeof *match);
    if (!match)
        return answer_no_memory(e);
    berm__v1__grep_match__init(match);
    *ret = match;
    if (answer_path(node, "path", a, &match->path, &match->raw_path, e) < 0 ||
        answer_u64(node, "line", &match->line, e) < 0 ||
        answer_text(node, "text", a, &match->text, e) < 0 ||
        answer_bool(node, "text_truncated", &match->text_truncated, e) < 0 ||
        answer_texts(node, "before", a, &match->n_before, &match->before, e) < 0 ||
        answer_texts(node, "after", a, &match->n_after, &match->after, e) < 0)
        return -(int)e->code;
    return 0;
}

static int read_grep(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__GrepResponse *response = (void *)op->response;
    const struct json *matches = answer_list(result, "matches", e);
    if (!matches || answer_truncated(result, &response->truncated, e) < 0 ||
        answer_u64(result, "files", &response->files, e) < 0 ||
        answer_u64(result, "binary_files", &response->binary_files, e) < 0 ||
        answer_u64(result, "unreadable", &response->unreadable, e) < 0)
        return -(int)e->code;
    response->matches =
        arena_alloc(&op->arena, MAX(matches->items.count, (size_t)1) * sizeof *response->matches);
    if (!response->matches)
        return answer_no_memory(e);
    JSON_FOR_EACH(it, matches) {
        Berm__V1__GrepMatch **at = &response->matches[response->n_matches++];
        if (read_match(it, &op->arena, at, e) < 0)
            return -(int)e->code;
        op->audit.bytes_moved += strlen((*at)->text);
    }
    return 0;
}

static void on_grep(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "grep",
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_GREP,
        .or_workspace = true,
        .check = check_grep,
        .put = put_grep,
        .read = read_grep,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_grep = {.on_message = on_grep, .on_cancel = file_op_cancel};

/* --- Glob --- */

static int check_glob(struct file_op *op, struct err *e) {
    const Berm__V1__GlobRequest *request = (const void *)op->m;
    return check_needed(request->pattern, request->max_matches, e);
}

static void put_glob(struct file_op *op, struct json_out *o) {
    const Berm__V1__GlobRequest *request = (const void *)op->m;
    uint64_t most = (uint64_t)limit_table[LIMIT_MATCHES_MAX].value;
    json_put_str(o, "pattern", str_of(request->pattern));
    json_put_bool(o, "all_types", request->all_types);
    json_put_u64(o, "max_matches", request->max_matches > 0 ? request->max_matches : most);
}

static int read_glob(struct file_op *op, const struct json *result, struct err *e) {
    Berm__V1__GlobResponse *response = (void *)op->response;
    if (answer_infos(result, "matches", &op->arena, &response->n_matches, &response->matches, e) <
            0 ||
        answer_truncated(result, &response->truncated, e) < 0)
        return -(int)e->code;
    return answer_u64(result, "unreadable", &response->unreadable, e);
}

static void on_glob(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = "glob",
        .or_workspace = true,
        .check = check_glob,
        .put = put_glob,
        .read = read_glob,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_glob = {.on_message = on_glob, .on_cancel = file_op_cancel};
