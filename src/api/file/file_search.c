/* file_search — Grep and Glob. */
#include <stdio.h>

#include "api/file/file_op.h"
#include "api/methods.h"

#define GREP_DEFAULT 1000
#define AROUND_MAX 20

static int search_check_pattern(const char *field, const char *pattern, struct err *e) {
    size_t n = strlen(pattern);
    return file_check_most(field, n, LIMIT_PATTERN_LENGTH, limit_table[LIMIT_PATTERN_LENGTH].value,
                           e);
}

static int search_check_needed(const char *pattern, uint32_t max_matches, struct err *e) {
    if (pattern[0] == '\0')
        return err_field(e, "pattern", "pattern: must not be empty");
    if (search_check_pattern("pattern", pattern, e) < 0)
        return -(int)e->code;
    return file_check_most("max_matches", max_matches, LIMIT_MATCHES_MAX,
                           limit_table[LIMIT_MATCHES_MAX].value, e);
}

/* --- Grep --- */

static int grep_check(struct file_op *op, struct err *e) {
    const Berm__V1__GrepRequest *request = (const void *)op->mu.m;
    if (search_check_needed(request->pattern, request->max_matches, e) < 0 ||
        search_check_pattern("glob", request->glob, e) < 0)
        return -(int)e->code;
    if (request->before_lines > AROUND_MAX)
        return err_field(e, "before_lines", "before_lines: must be at most %d", AROUND_MAX);
    if (request->after_lines > AROUND_MAX)
        return err_field(e, "after_lines", "after_lines: must be at most %d", AROUND_MAX);
    return 0;
}

static void grep_put(struct file_op *op) {
    const Berm__V1__GrepRequest *request = (const void *)op->mu.m;
    op->ask.grep.pattern = request->pattern;
    op->ask.grep.regex = request->regex;
    op->ask.grep.ignore_case = request->ignore_case;
    op->ask.grep.glob = request->glob;
    op->ask.grep.max_matches = request->max_matches > 0 ? request->max_matches : GREP_DEFAULT;
    op->ask.grep.before_lines = request->before_lines;
    op->ask.grep.after_lines = request->after_lines;
}

static int grep_read_match(const struct guest_match *from, struct arena *a,
                           Berm__V1__GrepMatch **ret, struct err *e) {
    Berm__V1__GrepMatch *match = arena_alloc(a, sizeof *match);
    if (!match)
        return answer_no_memory(e);
    berm__v1__grep_match__init(match);
    *ret = match;
    match->line = from->line;
    match->text_truncated = from->text_truncated;
    if (answer_path(&from->path, a, &match->path, &match->raw_path, e) < 0 ||
        answer_text(from->text, a, &match->text, e) < 0 ||
        answer_texts(from->before, from->n_before, a, &match->n_before, &match->before, e) < 0)
        return -(int)e->code;
    return answer_texts(from->after, from->n_after, a, &match->n_after, &match->after, e);
}

static int grep_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__GrepResponse *response = (void *)op->response;
    size_t n = a->grep.n_matches;
    response->truncated = (Berm__V1__TruncatedReason)a->grep.truncated;
    response->files = a->grep.files;
    response->binary_files = a->grep.binary_files;
    response->unreadable = a->grep.unreadable;
    response->matches = arena_alloc(&op->arena, MAX(n, (size_t)1) * sizeof *response->matches);
    if (!response->matches)
        return answer_no_memory(e);
    for (size_t i = 0; i < n; i++) {
        Berm__V1__GrepMatch **at = &response->matches[response->n_matches++];
        if (grep_read_match(&a->grep.matches[i], &op->arena, at, e) < 0)
            return -(int)e->code;
        op->audit.bytes_moved += a->grep.matches[i].text.n;
    }
    return 0;
}

static void grep_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_GREP,
        .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_GREP,
        .or_workspace = true,
        .check = grep_check,
        .put = grep_put,
        .read = grep_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_grep = {.on_message = grep_on_message, .on_cancel = mutation_cancel};

/* --- Glob --- */

static int glob_check(struct file_op *op, struct err *e) {
    const Berm__V1__GlobRequest *request = (const void *)op->mu.m;
    return search_check_needed(request->pattern, request->max_matches, e);
}

static void glob_put(struct file_op *op) {
    const Berm__V1__GlobRequest *request = (const void *)op->mu.m;
    uint64_t most = (uint64_t)limit_table[LIMIT_MATCHES_MAX].value;
    op->ask.glob.pattern = request->pattern;
    op->ask.glob.all_types = request->all_types;
    op->ask.glob.max_matches = request->max_matches > 0 ? request->max_matches : most;
}

static int glob_read(struct file_op *op, const struct guest_file_answer *a, struct err *e) {
    Berm__V1__GlobResponse *response = (void *)op->response;
    response->truncated = (Berm__V1__TruncatedReason)a->glob.truncated;
    response->unreadable = a->glob.unreadable;
    return answer_infos(a->glob.matches, a->glob.n_matches, &op->arena, &response->n_matches,
                        &response->matches, e);
}

static void glob_on_message(struct call *c, const ProtobufCMessage *m) {
    static const struct file_kind kind = {
        .method = GUEST_GLOB,
        .or_workspace = true,
        .check = glob_check,
        .put = glob_put,
        .read = glob_read,
    };
    file_op_begin(c, m, &kind);
}

const struct handler api_file_glob = {.on_message = glob_on_message, .on_cancel = mutation_cancel};
