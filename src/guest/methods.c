#include "guest/methods.h"

#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/exec/exec.h"
#include "guest/files/archive.h"
#include "guest/files/files.h"
#include "guest/guest.h"
#include "guest/life.h"
#include "guest/params.h"
#include "guest/reply.h"
#include "guest/search/search.h"
#include "guest/watch/watch.h"

#define VERSION_SPOKEN 1
#define VERSIONS_MAX 16

/* Fails unless the daemon speaks our version too. */
static int methods_check_versions(const struct json *versions, struct err *e) {
    size_t count = versions->items.count;
    bool is_common = false;
    if (count < 1 || count > VERSIONS_MAX)
        return err_field(e, "versions", "must have 1 to %d entries, got %zu", VERSIONS_MAX, count);
    JSON_FOR_EACH(it, versions) {
        if (it->type != JSON_INT || it->integer < 1 || it->integer > 65535)
            return err_field(e, "versions", "entries must be integers between 1 and 65535");
        is_common |= it->integer == VERSION_SPOKEN;
    }
    return is_common ? 0
                     : err_set(e, ERR_GUEST_VERSION, "versions: must include %d", VERSION_SPOKEN);
}

static int methods_hello(struct request *r, struct err *e) {
    static const char *const capabilities[] = {"terminal", "files",  "leaf",  "lines",
                                               "edit",     "search", "watch", "trees"};
    struct guest *g = r->guest;
    const struct json *versions;
    int64_t lease_ms;
    bool file_chunks = false;
    if (params_node(r->params, "versions", JSON_ARRAY, &versions, e) < 0 ||
        params_need_int(r->params, "lease_ms", 0, PARAMS_OFFSET_MAX, &lease_ms, e) < 0 ||
        params_bool(r->params, "file_chunks", &file_chunks, e) < 0)
        return -(int)e->code;
    if (!versions)
        return params_missing("versions", e);
    if (methods_check_versions(versions, e) < 0)
        return -(int)e->code;
    g->lease_ms = (uint64_t)lease_ms;
    g->link.hello_done = true;
    g->link.file_chunks = file_chunks;
    timer_stop(&g->lease);
    json_put_u64(r->out, "version", VERSION_SPOKEN);
    json_put_str(r->out, "guest", STR(BERM_VERSION));
    json_put_bool(r->out, "fd_passing", !g->link.stdio);
    json_key(r->out, "capabilities");
    json_open(r->out, '[');
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        json_str(r->out, str_of(capabilities[i]));
    json_close(r->out, ']');
    exec_report_write_list(g->execs, r->out, NULL, NULL);
    return 0;
}

static int methods_configure(struct request *r, struct err *e) {
    struct guest *g = r->guest;
    struct settings s;
    if (settings_read(&s, r->params, &g->arena, e) < 0)
        return -(int)e->code;
    if (g->settings.is_configured || g->execs->count > 0) {
        settings_done(&s);
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "configure: must come once, and before the first exec");
    }
    g->settings = s;
    if (s.lease_ms >= 0)
        g->lease_ms = (uint64_t)s.lease_ms;
    if (s.hostname[0]) /* fails without the privilege; then the driver has set the name */
        (void)!sethostname(s.hostname, strlen(s.hostname));
    return 0;
}

static int methods_ping(struct request *r, struct err *e) {
    (void)e;
    json_put_u64(r->out, "uptime_ms", r->guest->loop.now_ms);
    return 0;
}

static int methods_shutdown(struct request *r, struct err *e) {
    int64_t grace_ms;
    if (params_need_int(r->params, "grace_ms", 0, GRACE_MAX_MS, &grace_ms, e) < 0)
        return -(int)e->code;
    life_end(r->guest, (uint64_t)grace_ms);
    return 0;
}

static const struct {
    const char *name;
    int (*handle)(struct request *r, struct err *e);
} methods[] = {
    {"hello", methods_hello},
    {"configure", methods_configure},
    {"ping", methods_ping},
    {"sync", files_method_sync},
    {"shutdown", methods_shutdown},
    {"exec", exec_start_method},
    {"status", exec_report_method_status},
    {"done", exec_method_done},
    {"grant", exec_output_method_grant},
    {"signal", exec_control_method_signal},
    {"resize", exec_control_method_resize},
    {"stdin", exec_input_method_stdin},
    {"close_stdin", exec_input_method_close},
    {"read_output", exec_output_method_read},
    {"read", files_method_read},
    {"write", files_method_write},
    {"commit", files_method_commit},
    {"close", files_method_close},
    {"read_chunk", files_method_read_chunk},
    {"write_chunk", files_method_write_chunk},
    {"read_lines", lines_method},
    {"edit", edit_method},
    {"grep", grep_method},
    {"glob", glob_method},
    {"watch", watch_method_watch},
    {"unwatch", watch_method_unwatch},
    {"pack", archive_method_pack},
    {"unpack", archive_method_unpack},
    {"list", list_method},
    {"stat", names_method_stat},
    {"mkdir", names_method_mkdir},
    {"remove", remove_method},
    {"rename", names_method_rename},
};

static int methods_dispatch(struct request *r, struct str method, struct err *e) {
    struct guest *g = r->guest;
    /* A request that waited may outlive its connection. That connection had completed its own
     * hello. */
    bool is_current = r->generation == g->link.generation;
    if (is_current && !g->link.hello_done && !str_is(method, STR("hello")))
        return err_set(e, ERR_MALFORMED, "the first request must be hello, got %.*s",
                       (int)MIN(method.n, (size_t)64), method.p);
    settings_make_workspace(&g->settings); /* needed if the request came with `configure` */
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (str_is(method, str_of(methods[i].name)))
            return methods[i].handle(r, e);
    return err_set(e, ERR_UNIMPLEMENTED, "no method %.*s", (int)method.n, method.p);
}

/* Takes the descriptors of the message; its member `fds` says how many there are. */
static int methods_claim_fds(struct guest *g, struct request *r, struct err *e) {
    int64_t n = 0;
    bool is_valid = params_int(r->params, "fds", 0, RPC_MESSAGE_FDS_MAX, &n, e) == 0;
    if (rpc_in_claim(&g->link.rx, (size_t)n, r->fds) < 0 || !is_valid)
        return err_set(e, ERR_MALFORMED, "fds: must be the number of descriptors that came");
    r->n_fds = (size_t)n;
    return 0;
}

/* `text` is the whole message. A request that has to wait keeps a copy of it. */
static void methods_handle(struct guest *g, struct request *r, struct str method, struct str text,
                           bool is_new) {
    struct err e;
    struct json_out o;
    r->out = &o;
    buf_clear(&g->text);
    rpc_open_result(&o, &g->text, r->id);
    int s = is_new ? methods_claim_fds(g, r, &e) : 0;
    if (s == 0)
        s = methods_dispatch(r, method, &e);
    fd_close_all(r->fds, r->n_fds); /* close the descriptors that no handler took */
    if (s == REQUEST_WAIT)
        s = jobs_wait(&g->jobs, r->generation, text, &e) < 0 ? -(int)e.code : REQUEST_LATER;
    if (s == REQUEST_LATER)
        return;
    if (s == 0 && rpc_close(&o) < 0)
        s = err_set(&e, ERR_MESSAGE_TOO_LARGE, "the reply is larger than a message");
    if (s < 0)
        reply_error(g, r->generation, r->id, &e, r->next_offset);
    else if (g->link.connected && g->link.generation == r->generation &&
             link_send_buf(&g->link, &g->text) < 0)
        link_fail(&g->link);
}

void methods_serve_waiting(struct guest *g) {
    for (struct jobs_waiting *w; (w = jobs_next(&g->jobs)); free(w)) {
        struct rpc_message m;
        struct str text = {w->text, w->n};
        arena_reset(&g->arena);
        if (rpc_parse(&g->arena, text, &m) < 0)
            /* The text was valid when it arrived, so parsing fails only when out of memory. This
             * request gets no reply. */
            continue;
        struct request r = {.guest = g,
                            .id = m.id,
                            .generation = w->generation,
                            .params = m.params,
                            .next_offset = -1};
        methods_handle(g, &r, m.method, text, false);
    }
}

/* Replies to a message that is not a request. Returns whether the connection can continue. */
static bool methods_refuse(struct guest *g, int why) {
    struct err e;
    if (why == 0 || why == -EINVAL)
        err_set(&e, ERR_MALFORMED, "the message is JSON but not a request");
    else if (why == -EBADMSG)
        err_set(&e, ERR_MALFORMED, "the message is not JSON");
    else
        err_set(&e, ERR_MESSAGE_TOO_LARGE, "the message is nested too deep or has too many parts");
    reply_error(g, g->link.generation, 0, &e, -1);
    return why == 0 || why == -EINVAL;
}

static void methods_on_message(struct link *l, struct str text) {
    struct guest *g = container_of(l, struct guest, link);
    struct rpc_message m;
    arena_reset(&g->arena);
    int r = rpc_parse(&g->arena, text, &m);
    if (r == 0 && m.kind == RPC_REQUEST) {
        struct request request = {.guest = g,
                                  .id = m.id,
                                  .generation = l->generation,
                                  .params = m.params,
                                  .next_offset = -1};
        methods_handle(g, &request, m.method, text, true);
        return;
    }
    if (r == 0 && m.kind == RPC_NOTIFICATION) { /* the guest ignores all notifications */
        if (rpc_in_claim(&l->rx, 0, NULL) < 0)
            link_fail(l);
        return;
    }
    if (r == 0 || r == -EINVAL)
        (void)!rpc_in_claim(&l->rx, 0, NULL);
    if (!methods_refuse(g, r))
        link_fail(l);
}

static void methods_on_gone(struct link *l, bool ended) {
    struct guest *g = container_of(l, struct guest, link);
    handles_close_all(&g->handles);
    watches_close_all(g->watches);
    if (ended)
        life_end(g, 0);
    else if (g->lease_ms > 0)
        timer_start(&g->loop, &g->lease, g->lease_ms);
}

const struct link_events methods_link_events = {.on_message = methods_on_message,
                                                .on_gone = methods_on_gone};
