#include "core/guest/guest_exec.h"

#include <signal.h>

#include "core/guest/guest_exec_read.h"
#include "core/guest/guest_field.h"
#include "core/guest/guest_link_impl.h"

#define WINDOW_MAX 65536 /* guest.schema.json */
#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24

/* --- answers --- */

static int exec_read_started(const struct guest_wait *w, const struct json *result, struct arena *a,
                             struct guest_answer *ret, struct err *e) {
    struct guest_exec_state *state = arena_alloc(a, sizeof *state);
    (void)w;
    if (!state)
        return guest_field_no_memory(e);
    if (guest_exec_state_read(result, state, e) < 0)
        return -(int)e->code;
    ret->exec = state;
    return 0;
}

static int exec_read_input(const struct guest_wait *w, const struct json *result, struct arena *a,
                           struct guest_answer *ret, struct err *e) {
    struct guest_input_answer *input = arena_alloc(a, sizeof *input);
    uint32_t window_bytes = 0;
    (void)w;
    if (!input)
        return guest_field_no_memory(e);
    if (guest_field_u64(result, "next_offset", &input->next_offset, e) < 0 ||
        guest_field_u32(result, "window_bytes", WINDOW_MAX, &window_bytes, e) < 0)
        return -(int)e->code;
    input->window_bytes = window_bytes;
    ret->input = input;
    return 0;
}

/* The daemon only asks for offsets below the reported size, so an answer must contain bytes or skip
 * dropped bytes. */
static int exec_read_output(const struct guest_wait *w, const struct json *result, struct arena *a,
                            struct guest_answer *ret, struct err *e) {
    struct guest_output_answer *output = arena_alloc(a, sizeof *output);
    if (!output)
        return guest_field_no_memory(e);
    if (guest_field_u64(result, "offset", &output->offset, e) < 0 ||
        guest_field_bytes(result, "data_b64", w->bound.max_bytes, a, &output->data, e) < 0)
        return -(int)e->code;
    if (output->offset < w->bound.offset ||
        (output->offset == w->bound.offset && output->data.n == 0))
        return guest_field_bad(e, "offset");
    ret->output = output;
    return 0;
}

/* --- start --- */

static void exec_put_terminal(struct json_out *o, const Berm__V1__Terminal *t) {
    json_key(o, "terminal");
    json_open(o, '{');
    json_put_u64(o, "cols", t->size ? t->size->cols : COLS_DEFAULT);
    json_put_u64(o, "rows", t->size ? t->size->rows : ROWS_DEFAULT);
    json_put_str(o, "term", str_of(t->term));
    json_close(o, '}');
}

static void exec_put_output(struct json_out *o, const struct guest_exec_start *start) {
    static const char *const policies[] = {"drop_oldest", "drop_oldest", "block", "kill"};
    json_key(o, "output");
    json_open(o, '{');
    json_put_str(o, "policy", str_of(policies[start->spec->output_policy]));
    json_put_i64(o, "limit_bytes", start->output_limit_bytes);
    json_put_bool(o, "merge_stderr", start->spec->merge_stderr);
    json_close(o, '}');
}

static void exec_put_texts(struct json_out *o, const char *key, size_t n,
                           const char *const *texts) {
    json_key(o, key);
    json_open(o, '[');
    for (size_t i = 0; i < n; i++)
        json_str(o, str_of(texts[i]));
    json_close(o, ']');
}

void guest_exec_start(struct guest_link *l, const struct guest_exec_start *start,
                      struct guest_wait *w) {
    const Berm__V1__ExecSpec *spec = start->spec;
    struct json_out *o = guest_link_ask(l, "exec");
    json_put_str(o, "exec_id", str_of(start->exec_id));
    exec_put_texts(o, "argv", spec->n_argv, (const char *const *)spec->argv);
    guest_field_put_env(o, spec->n_env, spec->env);
    if (spec->cwd[0])
        json_put_str(o, "cwd", str_of(spec->cwd));
    if (spec->user[0])
        json_put_str(o, "user", str_of(spec->user));
    if (spec->terminal)
        exec_put_terminal(o, spec->terminal);
    json_put_str(o, "stdin", start->takes_input ? STR("pipe") : STR("empty"));
    json_put_i64(o, "timeout_ms", spec->timeout_ms > 0 ? spec->timeout_ms : -1);
    json_put_i64(o, "grace_ms", spec->grace_ms);
    exec_put_output(o, start);
    json_put_bool(o, "keep_descendants", spec->keep_descendants);
    exec_put_texts(o, "fd_roles", start->n_fds, start->fd_roles);
    w->read = exec_read_started;
    guest_link_send(l, start->fds, start->n_fds, w);
}

/* --- a running exec --- */

static struct json_out *exec_ask(struct guest_link *l, const char *method, const char *exec_id) {
    struct json_out *o = guest_link_ask(l, method);
    json_put_str(o, "exec_id", str_of(exec_id));
    return o;
}

void guest_exec_write(struct guest_link *l, const char *exec_id, uint64_t offset, struct str data,
                      struct guest_wait *w) {
    struct json_out *o = exec_ask(l, "stdin", exec_id);
    json_put_u64(o, "offset", offset);
    json_key(o, "data_b64");
    json_base64(o, data.p, MIN(data.n, (size_t)GUEST_STDIN_BYTES));
    w->read = exec_read_input;
    guest_link_send(l, NULL, 0, w);
}

void guest_exec_close_stdin(struct guest_link *l, const char *exec_id, uint64_t offset,
                            struct guest_wait *w) {
    json_put_u64(exec_ask(l, "close_stdin", exec_id), "offset", offset);
    guest_link_send(l, NULL, 0, w);
}

void guest_exec_signal(struct guest_link *l, const char *exec_id, int signal, bool leader_only,
                       uint64_t number, struct guest_wait *w) {
    struct json_out *o = exec_ask(l, "signal", exec_id);
    json_put_i64(o, "signal", signal);
    json_put_bool(o, "leader_only", leader_only);
    json_put_u64(o, "number", number);
    guest_link_send(l, NULL, 0, w);
}

void guest_exec_read_output(struct guest_link *l, const char *exec_id, bool is_stderr,
                            uint64_t offset, struct guest_wait *w) {
    struct json_out *o = exec_ask(l, "read_output", exec_id);
    json_put_str(o, "stream", is_stderr ? STR("stderr") : STR("stdout"));
    json_put_u64(o, "offset", offset);
    json_put_u64(o, "max_bytes", GUEST_OUTPUT_BYTES);
    w->read = exec_read_output;
    w->bound = (struct guest_bound){offset, GUEST_OUTPUT_BYTES};
    guest_link_send(l, NULL, 0, w);
}

void guest_exec_resize(struct guest_link *l, const char *exec_id, uint32_t cols, uint32_t rows,
                       struct guest_wait *w) {
    struct json_out *o = exec_ask(l, "resize", exec_id);
    json_put_u64(o, "cols", cols);
    json_put_u64(o, "rows", rows);
    guest_link_send(l, NULL, 0, w);
}

void guest_exec_kill(struct guest_link *l, const char *exec_id) {
    json_put_i64(exec_ask(l, "signal", exec_id), "signal", SIGKILL);
    guest_link_send(l, NULL, 0, NULL);
}

void guest_exec_grant(struct guest_link *l, const char *exec_id, uint64_t total_bytes) {
    json_put_u64(exec_ask(l, "grant", exec_id), "total_bytes", total_bytes);
    guest_link_send(l, NULL, 0, NULL);
}

void guest_exec_forget(struct guest_link *l, struct str exec_id) {
    json_put_str(guest_link_ask(l, "done"), "exec_id", exec_id);
    guest_link_send(l, NULL, 0, NULL);
}
