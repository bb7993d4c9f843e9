/* methods — the closed table of what the daemon may ask, and the way from a message to its answer. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "guest/archive.h"
#include "guest/files.h"
#include "guest/guest.h"
#include "guest/params.h"
#include "guest/path.h"
#include "guest/search.h"

#define SEARCH_PATH_MAX 8192
#define WORKSPACE_MAX 4095

static int method_hello(struct request *r, struct err *e) {
    struct guest *g = r->guest;
    const struct json *versions;
    int64_t lease_ms = -1;
    bool file_chunks = false;
    if (params_node(r->params, "versions", JSON_ARRAY, &versions, e) < 0 ||
        params_int(r->params, "lease_ms", 0, PARAMS_OFFSET_MAX, &lease_ms, e) < 0 ||
        params_bool(r->params, "file_chunks", &file_chunks, e) < 0)
        return -(int)e->code;
    if (!versions || lease_ms < 0)
        return params_missing(versions ? "lease_ms" : "versions", e);
    if (versions->items.count < 1 || versions->items.count > 16)
        return err_field(e, "versions", "has not 1 to 16 entries");
    bool common = false;
    JSON_FOR_EACH(it, versions) {
        if (it->type != JSON_INT || it->integer < 1 || it->integer > 65535)
            return err_field(e, "versions", "holds what is no version");
        common |= it->integer == GUEST_VERSION_SPOKEN;
    }
    if (!common)
        return err_set(e, ERR_GUEST_VERSION, "the guest speaks %d", GUEST_VERSION_SPOKEN);
    static const char *const capabilities[] = {"terminal", "files",  "leaf",  "lines",
                                               "edit",     "search", "watch", "trees"};
    g->lease_ms = (uint64_t)lease_ms;
    g->link.hello_done = true;
    g->link.file_chunks = file_chunks;
    timer_stop(&g->lease);
    json_put_u64(r->out, "version", GUEST_VERSION_SPOKEN);
    json_put_str(r->out, "guest", STR(BERM_VERSION));
    json_put_bool(r->out, "fd_passing", !g->link.stdio);
    json_key(r->out, "capabilities");
    json_open(r->out, '[');
    for (size_t i = 0; i < COUNT_OF(capabilities); i++)
        json_str(r->out, str_of(capabilities[i]));
    json_close(r->out, ']');
    exec_report_write_list(&g->execs, r->out, NULL, NULL);
    return 0;
}

void settings_free(struct settings *s) {
    for (char **it = s->env; it && *it; it++)
        free(*it);
    free(s->env);
    free(s->workspace);
    free(s->user);
    free(s->path);
    *s = (struct settings){0};
}

/* NULL stays NULL; false: no memory. */
static bool copy_text(struct str s, char **ret) {
    *ret = s.p ? strndup(s.p, s.n) : NULL;
    return !s.p || *ret;
}

static int copy_env(const struct json *list, char ***ret, struct err *e) {
    size_t n = 0;
    char **env = calloc(list->items.count + 1, sizeof *env);
    *ret = env;
    JSON_FOR_EACH(it, list) {
        struct str key = json_get(it, "key")->text, value = json_get(it, "value")->text;
        if (!env || asprintf(&env[n++], "%.*s=%.*s", (int)key.n, key.p, (int)value.n, value.p) < 0)
            return err_set(e, ERR_OUT_OF_MEMORY, "no memory for env");
    }
    return env ? 0 : err_set(e, ERR_OUT_OF_MEMORY, "no memory for env");
}

/* A workspace that is not there is made, for everyone inside: the guest of profile user may give nothing
 * away. What cannot be made shows when a program wants to start there, so `configure` is answered before. */
void guest_make_workspace(struct guest *g) {
    char *path = g->settings.workspace;
    if (!g->settings.is_new || !path)
        return;
    g->settings.is_new = false;
    if (access(path, F_OK) == 0) /* to ask is cheaper than to be refused, and mostly it is there */
        return;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)!mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0755) == 0)
        (void)!chmod(path, 0777);
}

static int method_configure(struct request *r, struct err *e) {
    struct guest *g = r->guest;
    struct str id, hostname = {0}, workspace = {0}, user = {0}, path = {0};
    const struct json *env;
    size_t env_bytes = 0;
    int64_t lease_ms = -1;
    if (params_id(r->params, "sandbox_id", &id, e) < 0 ||
        params_int(r->params, "lease_ms", 0, PARAMS_OFFSET_MAX, &lease_ms, e) < 0 ||
        params_str(r->params, "hostname", 63, &hostname, e) < 0 ||
        params_str(r->params, "workspace", WORKSPACE_MAX, &workspace, e) < 0 ||
        params_str(r->params, "user", 64, &user, e) < 0 ||
        params_str(r->params, "path", SEARCH_PATH_MAX, &path, e) < 0 ||
        params_node(r->params, "env", JSON_ARRAY, &env, e) < 0 ||
        (env && params_env(env, GUEST_ENV_COUNT, &env_bytes, e) < 0))
        return -(int)e->code;
    char *checked;
    if (workspace.p && (path_absolute(workspace, "workspace", "", &g->arena, &checked, e) < 0 ||
                        workspace.p[0] != '/'))
        return err_field(e, "workspace", "is no absolute path");
    if (env && env_bytes - 2 * env->items.count > GUEST_ENV_MAX) /* names and values alone */
        return err_field(e, "env", "is larger than %d bytes", GUEST_ENV_MAX);
    if (g->settings.configured || g->execs.count > 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "the guest is configured, or programs have run");
    struct settings s = {.configured = true, .is_new = true};
    if (!copy_text(workspace, &s.workspace) || !copy_text(user, &s.user) ||
        !copy_text(path, &s.path) || (env && copy_env(env, &s.env, e) < 0)) {
        settings_free(&s);
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory for settings");
    }
    settings_free(&g->settings);
    g->settings = s;
    if (lease_ms >= 0)
        g->lease_ms = (uint64_t)lease_ms;
    if (hostname.n > 0) /* the place has a name already where the guest may not give one */
        (void)!sethostname(hostname.p, hostname.n);
    return 0;
}

static int method_ping(struct request *r, struct err *e) {
    (void)e;
    json_put_u64(r->out, "uptime_ms", r->guest->loop.now_ms);
    return 0;
}

static int method_shutdown(struct request *r, struct err *e) {
    int64_t grace_ms = -1;
    if (params_int(r->params, "grace_ms", 0, GRACE_MAX_MS, &grace_ms, e) < 0)
        return -(int)e->code;
    if (grace_ms < 0)
        return params_missing("grace_ms", e);
    guest_end(r->guest, (uint64_t)grace_ms);
    return 0;
}

static const struct {
    const char *name;
    int (*handle)(struct request *r, struct err *e);
} methods[] = {
    {"hello", method_hello},
    {"configure", method_configure},
    {"ping", method_ping},
    {"sync", files_method_sync},
    {"shutdown", method_shutdown},
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
    {"read_lines", files_method_read_lines},
    {"edit", files_method_edit},
    {"grep", search_method_grep},
    {"glob", search_method_glob},
    {"watch", watch_method_watch},
    {"unwatch", watch_method_unwatch},
    {"pack", archive_method_pack},
    {"unpack", archive_method_unpack},
    {"list", files_method_list},
    {"stat", files_method_stat},
    {"mkdir", files_method_mkdir},
    {"remove", files_method_remove},
    {"rename", files_method_rename},
};

static int dispatch(struct request *r, struct str method, struct err *e) {
    bool is_known =
        r->generation != r->guest->link.generation; /* it waited, and its asker is gone */
    if (!is_known && !r->guest->link.hello_done && !str_is(method, STR("hello")))
        return err_set(e, ERR_MALFORMED, "the first request is hello");
    guest_make_workspace(r->guest); /* whatever came with `configure` finds it */
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (str_is(method, str_of(methods[i].name)))
            return methods[i].handle(r, e);
    return err_set(e, ERR_UNIMPLEMENTED, "no method %.*s", (int)method.n, method.p);
}

int guest_send_text(struct guest *g) {
    return link_send(&g->link, (struct str){(const char *)buf_data(&g->text), buf_len(&g->text)},
                     NULL, 0);
}

static void send_error(struct guest *g, int64_t id, const struct err *e, int64_t next_offset) {
    buf_clear(&g->text);
    if (rpc_write_error(&g->text, id, e, next_offset) < 0 || guest_send_text(g) < 0)
        link_fail(&g->link);
}

void guest_answer_error(struct guest *g, uint64_t generation, int64_t id, const struct err *e) {
    if (g->link.connected && g->link.generation == generation)
        send_error(g, id, e, -1);
}

bool guest_answer(struct guest *g, uint64_t generation, int64_t id, struct str members,
                  const int *fds, size_t n_fds) {
    if (!g->link.connected || g->link.generation != generation) {
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        return false;
    }
    struct json_out o;
    buf_clear(&g->text);
    rpc_open_result(&o, &g->text, id);
    if (members.n > 0)
        json_raw(&o, members);
    if (rpc_close(&o) < 0) {
        struct err e;
        err_set(&e, ERR_MESSAGE_TOO_LARGE, "the answer is larger than a message");
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        send_error(g, id, &e, -1);
        return false;
    }
    struct str text = {(const char *)buf_data(&g->text), buf_len(&g->text)};
    if (link_send(&g->link, text, fds, n_fds) < 0)
        link_fail(&g->link);
    return true;
}

/* How many descriptors came, by the message's own word. */
static int claim_fds(struct guest *g, struct request *r, struct err *e) {
    int64_t n = 0;
    bool readable = params_int(r->params, "fds", 0, RPC_MESSAGE_FDS_MAX, &n, e) == 0;
    if (rpc_in_claim(&g->link.rx, (size_t)n, r->fds) < 0 || !readable)
        return err_set(e, ERR_MALFORMED, "the descriptors are not as many as announced");
    r->n_fds = (size_t)n;
    return 0;
}

/* `text` is the whole message, for a request that has to wait. */
static void answer_request(struct guest *g, struct request *r, struct str method, struct str text,
                           bool is_new) {
    struct err e;
    struct json_out o;
    r->out = &o;
    buf_clear(&g->text);
    rpc_open_result(&o, &g->text, r->id);
    int s = is_new ? claim_fds(g, r, &e) : 0;
    if (s == 0)
        s = dispatch(r, method, &e);
    fd_close_all(r->fds, r->n_fds); /* those nobody took */
    if (s == GUEST_WAIT)
        s = jobs_wait(&g->jobs, r->generation, text, &e) < 0 ? -(int)e.code : GUEST_LATER;
    if (s == GUEST_LATER)
        return;
    if (s == 0 && rpc_close(&o) < 0)
        s = err_set(&e, ERR_MESSAGE_TOO_LARGE, "the answer is larger than a message");
    if (!g->link.connected || g->link.generation != r->generation)
        return;
    if (s < 0)
        send_error(g, r->id, &e, r->next_offset);
    else if (guest_send_text(g) < 0)
        link_fail(&g->link);
}

void guest_serve_waiting(struct guest *g) {
    for (struct waiting *w; (w = jobs_next(&g->jobs)); free(w)) {
        struct rpc_message m;
        struct str text = {w->text, w->n};
        arena_reset(&g->arena);
        if (rpc_parse(&g->arena, text, &m) < 0)
            continue; /* it was read once; only memory can lack now, and the asker will ask again */
        struct request r = {.guest = g,
                            .id = m.id,
                            .generation = w->generation,
                            .params = m.params,
                            .next_offset = -1};
        answer_request(g, &r, m.method, text, false);
    }
}

static void on_message(struct link *l, struct str text) {
    struct guest *g = container_of(l, struct guest, link);
    struct rpc_message m;
    struct err e;
    arena_reset(&g->arena);
    int r = rpc_parse(&g->arena, text, &m);
    if (r == 0 && m.kind == RPC_REQUEST) {
        struct request request = {.guest = g,
                                  .id = m.id,
                                  .generation = l->generation,
                                  .params = m.params,
                                  .next_offset = -1};
        answer_request(g, &request, m.method, text, true);
        return;
    }
    if (r == 0 && m.kind == RPC_NOTIFICATION) {
        if (rpc_in_claim(&l->rx, 0, NULL) < 0)
            link_fail(l);
        return; /* there are none for the guest yet */
    }
    if (r == -EINVAL || r == 0) {
        (void)!rpc_in_claim(&l->rx, 0, NULL);
        err_set(&e, ERR_MALFORMED, "JSON, but no request");
        send_error(g, 0, &e, -1);
        return;
    }
    if (r == -EBADMSG)
        err_set(&e, ERR_MALFORMED, "not JSON");
    else
        err_set(&e, ERR_MESSAGE_TOO_LARGE,
                "nested deeper or with more parts than a message may have");
    send_error(g, 0, &e, -1);
    link_fail(l);
}

static void on_gone(struct link *l, bool ended) {
    struct guest *g = container_of(l, struct guest, link);
    jobs_on_gone(&g->jobs);
    watches_close_all(&g->watches);
    if (ended)
        guest_end(g, 0);
    else if (g->lease_ms > 0)
        timer_start(&g->loop, &g->lease, g->lease_ms);
}

const struct link_events guest_link_events = {.on_message = on_message, .on_gone = on_gone};
