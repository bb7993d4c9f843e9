/* exec_state — a program as JSON: in answers, in notifications, on disk. */
#include "guest/guest.h"
#include "guest/params.h"

#define LIST_ROOM 8192 /* kept free of a message that lists programs */

static void write_exit(const struct exec *x, struct json_out *o) {
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
    json_key(o, names[x->exit]);
    if (x->exit == EXIT_TIMED_OUT) {
        json_open(o, '{');
        json_put_i64(o, "signal", x->exit_value);
        json_close(o, '}');
    } else if (x->exit == EXIT_NOT_STARTED) {
        rpc_put_error(o, &x->not_started, -1);
    } else if (x->exit == EXIT_CODE || x->exit == EXIT_SIGNAL) {
        json_i64(o, x->exit_value);
    } else {
        json_bool(o, true);
    }
    json_close(o, '}');
}

static void write_sizes(const struct exec *x, struct json_out *o) {
    json_put_u64(o, "stdout_bytes", x->log[STREAM_STDOUT].size);
    json_put_u64(o, "stderr_bytes", x->log[STREAM_STDERR].size);
    json_put_u64(o, "stdout_first", x->log[STREAM_STDOUT].first);
    json_put_u64(o, "stderr_first", x->log[STREAM_STDERR].first);
}

void exec_write_members(const struct exec *x, struct json_out *o) {
    bool exited = x->state == EXEC_EXITED;
    json_put_str(o, "exec_id", str_of(x->id));
    json_put_str(o, "state", exited ? STR("exited") : STR("running"));
    if (exited)
        write_exit(x, o);
    write_sizes(x, o);
    json_put_u64(o, "stdin_next", x->in_next);
    json_put_bool(o, "stdin_closed", x->in_closed || x->in_gone || exited);
    json_put_u64(o, "started_unix_ms", x->started_unix_ms);
    if (exited) {
        json_put_u64(o, "exited_unix_ms", x->exited_unix_ms);
        json_put_u64(o, "max_rss_bytes", x->max_rss_bytes);
    }
}

void exec_write_state(const struct exec *x, struct json_out *o) {
    json_open(o, '{');
    exec_write_members(x, o);
    json_close(o, '}');
}

void execs_write(struct execs *xs, struct json_out *o, struct exec *only, struct exec *after) {
    bool more = false;
    json_key(o, "execs");
    json_open(o, '[');
    struct list *it = after ? after->node.next : xs->all.next;
    for (; !only && it != &xs->all; it = it->next) {
        more = buf_available(o->to) < LIST_ROOM || buf_len(o->to) > LINK_MESSAGE_MAX - LIST_ROOM;
        if (more)
            break;
        struct exec *x = container_of(it, struct exec, node);
        exec_write_state(x, o);
        x->tell_grew = x->tell_exited = x->tell_room = false;
    }
    if (only)
        exec_write_state(only, o);
    json_close(o, ']');
    if (more)
        json_put_bool(o, "more", true);
}

int exec_method_status(struct request *r, struct err *e) {
    struct exec *only = NULL, *after = NULL;
    if (json_get(r->params, "exec_id") && exec_of_request(r, &only, e) < 0)
        return -(int)e->code;
    if (json_get(r->params, "after")) {
        struct str id;
        if (params_id(r->params, "after", &id, e) < 0)
            return -(int)e->code;
        after = execs_find(&r->guest->execs, id);
        if (!after)
            return err_field(e, "after", "is no program");
    }
    execs_write(&r->guest->execs, r->out, only, after);
    return 0;
}

static bool tell(struct exec *x, const char *method) {
    struct guest *g = x->guest;
    struct json_out o;
    buf_clear(&g->text);
    rpc_open_notification(&o, &g->text, method);
    if (method[0] == 'e') {
        exec_write_members(x, &o);
    } else {
        json_put_str(&o, "exec_id", str_of(x->id));
        if (method[0] == 'g') {
            write_sizes(x, &o);
        } else {
            json_put_u64(&o, "next_offset", x->in_next);
            json_put_u64(&o, "window_bytes",
                         STDIN_WINDOW - MIN(buf_len(&x->in_bytes), STDIN_WINDOW));
        }
    }
    return rpc_close(&o) == 0 && guest_send_text(g) == 0;
}

/* The exit is the last word about a program, and says the rest. */
static bool tell_one(struct exec *x) {
    if (x->tell_exited) {
        if (!tell(x, "exited"))
            return false;
        x->tell_exited = x->tell_grew = x->tell_room = false;
    }
    bool running = x->state != EXEC_EXITED;
    if (x->tell_grew && running && !tell(x, "grew"))
        return false;
    x->tell_grew = false;
    if (x->tell_room && running && !tell(x, "stdin_room"))
        return false;
    x->tell_room = false;
    return true;
}

void execs_tell(struct execs *xs) {
    struct link *l = &xs->guest->link;
    if (!l->connected || !l->hello_done)
        return;
    LIST_FOR_EACH(it, &xs->all) {
        if (link_is_busy(l) || !tell_one(container_of(it, struct exec, node)))
            return;
    }
}
