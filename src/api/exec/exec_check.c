#include "api/exec/exec_check.h"

#include <stdio.h>
#include <string.h>

#include "api/checks.h"
#include "base/str.h"

#define FIELD_MAX 96
#define WORD_MAX 64 /* longest user name or TERM */
#define OUTPUT_LEAST 65536
#define TERMINAL_SIDE_MAX 4096
#define SIGNAL_MAX 64
#define TERM_DEFAULT "xterm-256color"

int exec_check_over(struct err *e, const char *field, enum limit_id limit, int64_t value) {
    err_field(e, field, "%s: must be at most %lld %s", field, (long long)value,
              limit_unit_name(limit_table[limit].unit));
    e->limit = limit_table[limit].name;
    e->limit_value = value;
    return -(int)e->code;
}

/* Fails with the field in the details and also in the text, for people who see only the text. */
PRINTF(3, 4)
static int exec_check_fail(struct err *e, const char *field, const char *fmt, ...) {
    char what[sizeof e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return err_field(e, field, "%s: %s", field, what);
}

int exec_check_reader(const char *id, const char *field, struct err *e) {
    size_t n = strlen(id);
    if (n == 0 || n > READER_ID_MAX || strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != n ||
        id[0] == '-' || id[n - 1] == '-')
        return err_field(
            e, field, "%s: must be 1 to %d characters of a-z, 0-9 and -, without - at either end",
            field, READER_ID_MAX);
    return 0;
}

int exec_check_size(const Berm__V1__TerminalSize *size, const char *field, struct err *e) {
    if (!size)
        return exec_check_fail(e, field, "must be set");
    if (size->cols < 1 || size->cols > TERMINAL_SIDE_MAX || size->rows < 1 ||
        size->rows > TERMINAL_SIDE_MAX)
        return exec_check_fail(e, field, "must have 1 to %d columns and rows", TERMINAL_SIDE_MAX);
    return 0;
}

int exec_check_signal(int32_t number, const char *field, struct err *e) {
    return number >= 1 && number <= SIGNAL_MAX
               ? 0
               : exec_check_fail(e, field, "must be between 1 and %d, got %d", SIGNAL_MAX,
                                 (int)number);
}

/* The path of a part of the spec, such as "spec.env[3].key". */
struct field {
    char text[FIELD_MAX];
};

PRINTF(2, 3)
static struct field exec_check_part(const struct exec_check *c, const char *fmt, ...) {
    struct field f;
    int n = snprintf(f.text, sizeof f.text, "%s.", c->path);
    va_list args;
    va_start(args, fmt);
    vsnprintf(f.text + n, sizeof f.text - (size_t)n, fmt, args);
    va_end(args);
    return f;
}

static int exec_check_argv(const struct exec_check *c, const Berm__V1__ExecSpec *s, struct err *e) {
    int64_t most = c->limits->of[LIMIT_EXEC_ARGV_COUNT];
    if (s->n_argv == 0 || s->argv[0][0] == '\0')
        return exec_check_fail(e, exec_check_part(c, "argv").text, "must name a program");
    if (s->n_argv > (size_t)most)
        return exec_check_over(e, exec_check_part(c, "argv").text, LIMIT_EXEC_ARGV_COUNT, most);
    return 0;
}

/* The size of argv, env and cwd as execve copies them: each string with its NUL, a variable with
 * its "=". */
static int exec_check_args_bytes(const struct exec_check *c, const Berm__V1__ExecSpec *s,
                                 struct err *e) {
    int64_t most = c->limits->of[LIMIT_EXEC_ARGS];
    size_t bytes = strlen(s->cwd);
    for (size_t i = 0; i < s->n_argv; i++)
        bytes += strlen(s->argv[i]) + 1;
    for (size_t i = 0; i < s->n_env; i++)
        bytes += strlen(s->env[i]->key) + strlen(s->env[i]->value) + 2;
    return bytes <= (size_t)most
               ? 0
               : exec_check_over(e, exec_check_part(c, "argv").text, LIMIT_EXEC_ARGS, most);
}

static int exec_check_cwd(const struct exec_check *c, const Berm__V1__ExecSpec *s, struct err *e) {
    struct field f = exec_check_part(c, "cwd");
    struct str rest = str_of(s->cwd), name;
    long depth = 0;
    if (rest.n > (size_t)c->limits->of[LIMIT_PATH_LENGTH])
        return exec_check_over(e, f.text, LIMIT_PATH_LENGTH, c->limits->of[LIMIT_PATH_LENGTH]);
    while (str_split(&rest, '/', &name)) {
        if (name.n > (size_t)c->limits->of[LIMIT_PATH_NAME])
            return exec_check_over(e, f.text, LIMIT_PATH_NAME, c->limits->of[LIMIT_PATH_NAME]);
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        depth += str_is(name, STR("..")) ? -1 : 1;
        if (depth < 0)
            return exec_check_fail(e, f.text, "must not go above its start with ..");
    }
    return 0;
}

/* Checks a user name or a TERM: printable, short, without spaces. */
static int exec_check_word(const char *word, struct field f, struct err *e) {
    size_t n = strlen(word);
    if (n > WORD_MAX)
        return exec_check_fail(e, f.text, "must have at most %d characters, got %zu", WORD_MAX, n);
    for (size_t i = 0; i < n; i++)
        if (word[i] <= ' ' || word[i] > '~')
            return exec_check_fail(e, f.text, "must be printable ASCII without spaces");
    return 0;
}

static int exec_check_terminal(const struct exec_check *c, Berm__V1__ExecSpec *s, struct err *e) {
    if (!s->terminal)
        return 0;
    if (c->is_run)
        return exec_check_fail(e, exec_check_part(c, "terminal").text,
                               "must be unset for RunExec; use Interact");
    if ((s->terminal->size &&
         exec_check_size(s->terminal->size, exec_check_part(c, "terminal.size").text, e) < 0) ||
        exec_check_word(s->terminal->term, exec_check_part(c, "terminal.term"), e) < 0)
        return -(int)e->code;
    Berm__V1__Terminal *full = arena_alloc(c->arena, sizeof *full);
    Berm__V1__TerminalSize *size = arena_alloc(c->arena, sizeof *size);
    if (!full || !size)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    *full = *s->terminal;
    berm__v1__terminal_size__init(size);
    size->cols = 80;
    size->rows = 24;
    if (!full->size)
        full->size = size;
    if (full->term[0] == '\0')
        full->term = TERM_DEFAULT;
    s->terminal = full;
    s->stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    return 0;
}

static int exec_check_stdin(const struct exec_check *c, Berm__V1__ExecSpec *s, struct err *e) {
    if (s->stdin_mode < BERM__V1__STDIN_MODE__STDIN_MODE_UNSPECIFIED ||
        s->stdin_mode > BERM__V1__STDIN_MODE__STDIN_MODE_PIPE)
        return exec_check_fail(e, exec_check_part(c, "stdin_mode").text,
                               "must be a known mode, got %d", (int)s->stdin_mode);
    if (c->is_run)
        s->stdin_mode = c->has_run_data ? BERM__V1__STDIN_MODE__STDIN_MODE_PIPE
                                        : BERM__V1__STDIN_MODE__STDIN_MODE_EMPTY;
    else if (s->stdin_mode == BERM__V1__STDIN_MODE__STDIN_MODE_UNSPECIFIED)
        s->stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_EMPTY;
    return 0;
}

static int exec_check_times(const struct exec_check *c, Berm__V1__ExecSpec *s, struct err *e) {
    int64_t wall = c->sandbox && c->sandbox->exec_wall_ms > 0 ? c->sandbox->exec_wall_ms : -1;
    int64_t grace_max = c->limits->of[LIMIT_GRACE_MAX];
    if (s->timeout_ms < -1)
        return exec_check_fail(e, exec_check_part(c, "timeout_ms").text,
                               "must be at least -1, got %lld", (long long)s->timeout_ms);
    if (wall > 0 && s->timeout_ms > wall)
        return exec_check_over(e, exec_check_part(c, "timeout_ms").text, LIMIT_EXEC_WALL, wall);
    if (s->timeout_ms <= 0)
        s->timeout_ms = wall;
    if (s->grace_ms < -1)
        return exec_check_fail(e, exec_check_part(c, "grace_ms").text,
                               "must be at least -1, got %lld", (long long)s->grace_ms);
    if (s->grace_ms > grace_max)
        return exec_check_over(e, exec_check_part(c, "grace_ms").text, LIMIT_GRACE_MAX, grace_max);
    if (s->grace_ms == 0)
        s->grace_ms = c->limits->of[LIMIT_GRACE_DEFAULT];
    return 0;
}

static int exec_check_output(const struct exec_check *c, Berm__V1__ExecSpec *s, struct err *e) {
    int64_t most =
        c->sandbox && c->sandbox->output_bytes > 0 ? c->sandbox->output_bytes : INT64_MAX;
    struct field f = exec_check_part(c, "output_limit_bytes");
    if (s->output_policy < BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_UNSPECIFIED ||
        s->output_policy > BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_KILL)
        return exec_check_fail(e, exec_check_part(c, "output_policy").text,
                               "must be a known policy, got %d", (int)s->output_policy);
    if (s->output_policy == BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_UNSPECIFIED)
        s->output_policy = BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST;
    if (s->output_limit_bytes == 0)
        s->output_limit_bytes = MIN(c->limits->of[LIMIT_OUTPUT_EXEC], most);
    else if (s->output_limit_bytes < OUTPUT_LEAST)
        return exec_check_fail(e, f.text, "must be at least %d, got %lld", OUTPUT_LEAST,
                               (long long)s->output_limit_bytes);
    else if (s->output_limit_bytes > most)
        return exec_check_over(e, f.text, LIMIT_OUTPUT_SANDBOX, most);
    return 0;
}

int exec_check_spec(const struct exec_check *c, const Berm__V1__ExecSpec *asked,
                    Berm__V1__ExecSpec *ret_spec, struct err *e) {
    if (!asked)
        return exec_check_fail(e, c->path, "must be set");
    Berm__V1__ExecSpec s = *asked;
    if (exec_check_argv(c, &s, e) < 0 ||
        check_env(exec_check_part(c, "env").text, s.n_env, s.env, LIMIT_EXEC_ARGS, e) < 0 ||
        exec_check_args_bytes(c, &s, e) < 0 || exec_check_cwd(c, &s, e) < 0 ||
        exec_check_word(s.user, exec_check_part(c, "user"), e) < 0 ||
        check_labels(exec_check_part(c, "labels").text, s.n_labels, s.labels, EXEC_LABELS_MAX, e) <
            0 ||
        exec_check_stdin(c, &s, e) < 0 || exec_check_terminal(c, &s, e) < 0 ||
        exec_check_times(c, &s, e) < 0 || exec_check_output(c, &s, e) < 0)
        return -(int)e->code;
    *ret_spec = s;
    return 0;
}

int exec_check_offsets(struct exec *x, const uint64_t offsets[EXEC_STREAMS], struct err *e) {
    for (unsigned s = 0; s < EXEC_STREAMS; s++) {
        uint64_t first, end = 0;
        if (s < exec_n_streams(x))
            exec_extent(x, s, &first, &end);
        if (offsets[s] <= end)
            continue;
        err_set(e, ERR_OFFSET_BEYOND_END, "%s ends at %llu", s == EXEC_STDOUT ? "stdout" : "stderr",
                (unsigned long long)end);
        return err_number(e, "end_offset", (int64_t)end);
    }
    return 0;
}

int exec_check_input_end(struct exec *x, uint64_t offset, struct err *e) {
    const Berm__V1__StdinState *input = exec_record(x)->input;
    if (input->closed || offset >= input->next_offset)
        return 0;
    err_set(e, ERR_STDIN_OFFSET, "%llu bytes were accepted",
            (unsigned long long)input->next_offset);
    return err_number(e, "next_offset", (int64_t)input->next_offset);
}
