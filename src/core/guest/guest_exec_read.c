#include "core/guest/guest_exec_read.h"

#include <errno.h>

#include "core/guest/guest_field.h"

#define RSS_MAX ((uint64_t)1 << 53) /* bermd ignores larger values from a guest */
#define MESSAGE_MAX ((size_t)255)
#define SIGNAL_MAX 64

static bool exec_read_number(const struct json *n, int64_t min, int64_t max, int *ret) {
    if (!n || n->type != JSON_INT || n->integer < min || n->integer > max)
        return false;
    *ret = (int)n->integer;
    return true;
}

static void exec_read_not_started(const struct json *why, struct guest_exit *ret) {
    const struct json *message = json_get(why, "message");
    int code;
    const struct err_face *face = exec_read_number(json_get(why, "code"), 1, 999, &code)
                                      ? err_face((enum err_code)code)
                                      : NULL;
    ret->kind = GUEST_EXIT_NOT_STARTED;
    ret->code = face ? face->name : "GUEST_PROTOCOL";
    if (message && message->type == JSON_STRING)
        ret->message = (struct str){message->text.p, MIN(message->text.n, MESSAGE_MAX)};
}

static void exec_read_exit(const struct json *exit, struct guest_exit *ret) {
    const struct json *timed_out = json_get(exit, "timed_out");
    *ret = (struct guest_exit){.message = STR("")};
    if (exec_read_number(json_get(exit, "code"), 0, 255, &ret->number))
        ret->kind = GUEST_EXIT_CODE;
    else if (exec_read_number(json_get(exit, "signal"), 1, SIGNAL_MAX, &ret->number))
        ret->kind = GUEST_EXIT_SIGNAL;
    else if (exec_read_number(json_get(timed_out, "signal"), 1, SIGNAL_MAX, &ret->number))
        ret->kind = GUEST_EXIT_TIMED_OUT;
    else if (json_get(exit, "out_of_memory"))
        ret->kind = GUEST_EXIT_OUT_OF_MEMORY;
    else if (json_get(exit, "output_limit"))
        ret->kind = GUEST_EXIT_OUTPUT_LIMIT;
    else if (json_get(exit, "not_started"))
        exec_read_not_started(json_get(exit, "not_started"), ret);
}

int guest_exec_state_read(const struct json *state, struct guest_exec_state *ret, struct err *e) {
    const struct json *name = json_get(state, "state");
    const struct json *closed = json_get(state, "stdin_closed");
    uint64_t max_rss_bytes = json_count(state, "max_rss_bytes");
    struct str id;
    if (guest_field_exec_id(state, &id, e) < 0)
        return -(int)e->code;
    *ret = (struct guest_exec_state){
        .exec_id = id,
        .has_exited = name && name->type == JSON_STRING && str_is(name->text, STR("exited")),
        .stdin_next = json_count(state, "stdin_next"),
        .stdin_closed = closed && closed->type == JSON_BOOL && closed->boolean,
        .started_unix_ms = (int64_t)json_count(state, "started_unix_ms"),
        .exited_unix_ms = (int64_t)json_count(state, "exited_unix_ms"),
        .max_rss_bytes = max_rss_bytes < RSS_MAX ? max_rss_bytes : 0,
        .output_bytes = {json_count(state, "stdout_bytes"), json_count(state, "stderr_bytes")},
    };
    exec_read_exit(json_get(state, "exit"), &ret->exit);
    return 0;
}

static void exec_write_exit(struct json_out *o, const struct guest_exit *exit) {
    json_key(o, "exit");
    json_open(o, '{');
    if (exit->kind == GUEST_EXIT_CODE || exit->kind == GUEST_EXIT_SIGNAL)
        json_put_i64(o, exit->kind == GUEST_EXIT_CODE ? "code" : "signal", exit->number);
    else if (exit->kind == GUEST_EXIT_OUT_OF_MEMORY || exit->kind == GUEST_EXIT_OUTPUT_LIMIT)
        json_put_bool(o, exit->kind == GUEST_EXIT_OUT_OF_MEMORY ? "out_of_memory" : "output_limit",
                      true);
    else if (exit->kind == GUEST_EXIT_TIMED_OUT) {
        json_key(o, "timed_out");
        json_open(o, '{');
        json_put_i64(o, "signal", exit->number);
        json_close(o, '}');
    }
    json_close(o, '}');
}

int guest_exec_status_write(const struct guest_exec_state *state, struct buf *to) {
    struct json_out o;
    json_begin(&o, to);
    json_open(&o, '{');
    json_put_str(&o, "exec_id", state->exec_id);
    json_put_str(&o, "state", STR("exited"));
    exec_write_exit(&o, &state->exit);
    json_put_u64(&o, "stdout_bytes", state->output_bytes[0]);
    json_put_u64(&o, "stderr_bytes", state->output_bytes[1]);
    json_put_i64(&o, "started_unix_ms", state->started_unix_ms);
    json_put_i64(&o, "exited_unix_ms", state->exited_unix_ms);
    json_put_u64(&o, "max_rss_bytes", state->max_rss_bytes);
    json_close(&o, '}');
    int r = json_end(&o);
    return r < 0 ? r : buf_append(to, "\n", 1);
}

int guest_exec_status_read(struct str text, struct arena *a, struct guest_exec_state *ret) {
    static const struct json_bounds bounds = {.depth = 8, .nodes = 128, .members = 64};
    struct json *state;
    struct err e;
    if (text.n == 0 || text.n > GUEST_STATUS_MAX + 1 || text.p[text.n - 1] != '\n')
        return -EBADMSG;
    int r = json_parse(a, text.p, text.n, &bounds, &state);
    if (r < 0)
        return r == -ENOMEM ? r : -EBADMSG;
    return guest_exec_state_read(state, ret, &e) < 0 ? -EBADMSG : 0;
}
