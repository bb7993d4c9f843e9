#include "guest/exec/exec_report.h"

#include "guest/exec/exec.h"
#include "guest/guest.h"
#include "guest/params.h"

#define LIST_RESERVE 8192 /* bytes of a message that a list of execs leaves free */

static void exec_report_write_exit(const struct exec_exit *outcome, struct json_out *o) {
    static const char *const names[] = {
        [EXIT_CODE] = "code",
        [EXIT_SIGNAL] = "signal",
        [EXIT_TIMED_OUT] = "timed_out",
        [EXIT_OUT_OF_MEMORY] = "out_of_memory",
        [EXIT_OUTPUT_LIMIT] = "output_limit",
        [EXIT_NOT_STARTED] = "not_started",
    };
    json_key(o, "exit");
    json_open(o, '{');
    json_key(o, names[outcome->kind]);
    switch (outcome->kind) {
    case EXIT_TIMED_OUT:
        json_open(o, '{');
        json_put_i64(o, "signal", outcome->value);
        json_close(o, '}');
        break;
    case EXIT_NOT_STARTED:
        rpc_put_error(o, &outcome->not_started, -1);
        break;
    case EXIT_CODE:
    case EXIT_SIGNAL:
        json_i64(o, outcome->value);
        break;
    case EXIT_OUT_OF_MEMORY:
    case EXIT_OUTPUT_LIMIT:
        json_bool(o, true);
        break;
    }
    json_close(o, '}');
}

static void exec_report_write_sizes(const struct exec *x, struct json_out *o) {
    const struct outlog *logs = x->output.logs;
    json_put_u64(o, "stdout_bytes", logs[EXEC_STDOUT].size);
    json_put_u64(o, "stderr_bytes", logs[EXEC_STDERR].size);
    json_put_u64(o, "stdout_first", logs[EXEC_STDOUT].first);
    json_put_u64(o, "stderr_first", logs[EXEC_STDERR].first);
}

static void exec_report_write_state(const struct exec *x, bool is_exited, struct json_out *o) {
    json_put_str(o, "exec_id", str_of(x->id));
    json_put_str(o, "state", is_exited ? STR("exited") : STR("running"));
    if (is_exited)
        exec_report_write_exit(&x->exit, o);
    exec_report_write_sizes(x, o);
    json_put_u64(o, "stdin_next", x->input.next_offset);
    json_put_bool(o, "stdin_closed", x->input.state != STDIN_OPEN || is_exited);
    json_put_u64(o, "started_unix_ms", x->started_unix_ms);
    if (is_exited) {
        json_put_u64(o, "exited_unix_ms", x->exit.unix_ms);
        json_put_u64(o, "max_rss_bytes", x->max_rss_bytes);
    }
}

void exec_report_write(const struct exec *x, struct json_out *o) {
    exec_report_write_state(x, x->life >= EXEC_EXITED, o);
}

void exec_report_write_exited(const struct exec *x, struct json_out *o) {
    json_open(o, '{');
    exec_report_write_state(x, true, o);
    json_close(o, '}');
}

static void exec_report_write_entry(const struct exec *x, struct json_out *o) {
    json_open(o, '{');
    exec_report_write(x, o);
    json_close(o, '}');
}

void exec_report_write_list(struct execs *all, struct json_out *o, struct exec *only,
                            struct exec *after) {
    bool more = false;
    json_key(o, "execs");
    json_open(o, '[');
    struct list *it = after ? after->node.next : all->all.next;
    for (; !only && it != &all->all; it = it->next) {
        more =
            buf_available(o->to) < LIST_RESERVE || buf_len(o->to) > LINK_MESSAGE_MAX - LIST_RESERVE;
        if (more)
            break;
        struct exec *x = container_of(it, struct exec, node);
        exec_report_write_entry(x, o);
        x->notices = 0;
    }
    if (only)
        exec_report_write_entry(only, o);
    json_close(o, ']');
    if (more)
        json_put_bool(o, "more", true);
}

int exec_report_method_status(struct request *r, struct err *e) {
    struct exec *only = NULL, *after = NULL;
    if (json_get(r->params, "exec_id") && exec_of_request(r, &only, e) < 0)
        return -(int)e->code;
    if (json_get(r->params, "after")) {
        struct str id;
        if (params_id(r->params, "after", &id, e) < 0)
            return -(int)e->code;
        after = execs_find(r->guest->execs, id);
        if (!after)
            return err_field(e, "after", "must be the id of an exec, got %.*s", (int)id.n, id.p);
    }
    exec_report_write_list(r->guest->execs, r->out, only, after);
    return 0;
}

static void exec_report_write_grew(const struct exec *x, struct json_out *o) {
    json_put_str(o, "exec_id", str_of(x->id));
    exec_report_write_sizes(x, o);
}

static void exec_report_write_stdin_room(const struct exec *x, struct json_out *o) {
    size_t buffered = MIN(buf_len(&x->input.bytes), EXEC_INPUT_WINDOW);
    json_put_str(o, "exec_id", str_of(x->id));
    json_put_u64(o, "next_offset", x->input.next_offset);
    json_put_u64(o, "window_bytes", EXEC_INPUT_WINDOW - buffered);
}

static const struct {
    const char *method;
    void (*write)(const struct exec *x, struct json_out *o);
} notifications[NOTICE_COUNT] = {
    [NOTICE_EXITED] = {"exited", exec_report_write},
    [NOTICE_GREW] = {"grew", exec_report_write_grew},
    [NOTICE_STDIN_ROOM] = {"stdin_room", exec_report_write_stdin_room},
};

void exec_report_set(struct exec *x, enum exec_notice notice) {
    x->notices |= 1u << notice;
}

static bool exec_report_send(const struct exec *x, enum exec_notice notice) {
    struct guest *g = x->guest;
    struct json_out o;
    buf_clear(&g->text);
    rpc_open_notification(&o, &g->text, notifications[notice].method);
    notifications[notice].write(x, &o);
    return rpc_close(&o) == 0 && link_send_buf(&g->link, &g->text) == 0;
}

/* `exited` is the last notification of an exec and includes the contents of the others. */
static bool exec_report_send_pending(struct exec *x) {
    for (unsigned i = 0; i < NOTICE_COUNT && x->notices != 0; i++) {
        unsigned bit = 1u << i;
        if (!(x->notices & bit))
            continue;
        bool is_wanted = i == NOTICE_EXITED || x->life < EXEC_EXITED;
        if (is_wanted && !exec_report_send(x, (enum exec_notice)i))
            return false;
        x->notices = i == NOTICE_EXITED ? 0 : x->notices & ~bit;
    }
    return true;
}

void exec_report_send_all(struct execs *all) {
    struct link *l = &all->guest->link;
    if (!l->connected || !l->hello_done)
        return;
    LIST_FOR_EACH(it, &all->all) {
        if (link_is_busy(l) || !exec_report_send_pending(container_of(it, struct exec, node)))
            return;
    }
}
