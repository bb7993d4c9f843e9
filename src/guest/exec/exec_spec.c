#include "guest/exec/exec_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/outlog.h"
#include "base/programs.h"
#include "guest/exec/exec.h"
#include "guest/guest.h"
#include "guest/params.h"
#include "guest/path.h"

#define ARGS_MAX_BYTES 131072
#define ARGV_MAX 4096
#define ENV_MAX 512
#define ENV_OWN 8 /* at least PATH, HOME, USER, LOGNAME, TERM and the final NULL */

static int exec_spec_no_memory(const char *what, struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "%s: out of memory", what);
}

static int exec_spec_read_argv(struct request *r, struct exec_spec *s, struct err *e) {
    const struct json *list;
    if (params_node(r->params, "argv", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return params_missing("argv", e);
    size_t count = list->items.count, n = 0;
    if (count == 0 || count > ARGV_MAX)
        return err_field(e, "argv", "must have 1 to %d entries, got %zu", ARGV_MAX, count);
    char **argv = arena_alloc(&r->guest->arena, (count + 1) * sizeof *argv);
    JSON_FOR_EACH(it, list) {
        if (it->type != JSON_STRING || it->has_nul)
            return err_field(e, "argv", "entry %zu must be a string without NUL", n);
        if (!argv || !(argv[n] = arena_copy(&r->guest->arena, it->text.p, it->text.n)))
            return exec_spec_no_memory("argv", e);
        s->bytes += it->text.n + 1;
        n++;
    }
    argv[n] = NULL;
    if (argv[0][0] == '\0')
        return err_field(e, "argv", "entry 0 must name a program, got an empty string");
    s->launch.argv = argv;
    return 0;
}

static int exec_spec_read_terminal(struct request *r, struct exec_spec *s, struct err *e) {
    const struct json *t;
    if (params_node(r->params, "terminal", JSON_OBJECT, &t, e) < 0)
        return -(int)e->code;
    if (!t)
        return 0;
    s->has_terminal = true;
    s->term = STR("xterm");
    if (params_int(t, "cols", 1, 4096, &s->cols, e) < 0 ||
        params_int(t, "rows", 1, 4096, &s->rows, e) < 0 ||
        params_str(t, "term", 64, &s->term, e) < 0)
        return -(int)e->code;
    return s->cols > 0 && s->rows > 0 ? 0 : err_field(e, "terminal", "must have cols and rows");
}

static int exec_spec_read_output(struct request *r, struct exec_spec *s, struct err *e) {
    static const char *const policies[] = {"drop_oldest", "block", "kill"};
    const struct json *o;
    s->policy = -1;
    if (params_node(r->params, "output", JSON_OBJECT, &o, e) < 0)
        return -(int)e->code;
    if (!o)
        return params_missing("output", e);
    if (params_enum(o, "policy", policies, COUNT_OF(policies), &s->policy, e) < 0 ||
        params_int(o, "limit_bytes", OUTLOG_CAP_MIN, PARAMS_OFFSET_MAX, &s->limit_bytes, e) < 0 ||
        params_bool(o, "merge_stderr", &s->merge_stderr, e) < 0)
        return -(int)e->code;
    return s->policy >= 0 && s->limit_bytes > 0
               ? 0
               : err_field(e, "output", "must have policy and limit_bytes");
}

static int exec_spec_read_rest(struct request *r, struct exec_spec *s, struct err *e) {
    static const char *const stdins[] = {"empty", "pipe"};
    int in = 0;
    struct str cwd = {0};
    const char *workspace = r->guest->settings.workspace ? r->guest->settings.workspace : "/";
    if (params_enum(r->params, "stdin", stdins, COUNT_OF(stdins), &in, e) < 0 ||
        params_int(r->params, "timeout_ms", -1, PARAMS_OFFSET_MAX, &s->timeout_ms, e) < 0 ||
        params_int(r->params, "grace_ms", -1, GRACE_MAX_MS, &s->grace_ms, e) < 0 ||
        params_bool(r->params, "keep_descendants", &s->keep_descendants, e) < 0 ||
        params_str(r->params, "user", 64, &s->user_name, e) < 0 ||
        params_str(r->params, "cwd", PATH_LENGTH_MAX, &cwd, e) < 0)
        return -(int)e->code;
    char *absolute;
    if (path_absolute(cwd.n ? cwd : STR("."), "cwd", workspace, &r->guest->arena, &absolute, e) < 0)
        return -(int)e->code;
    s->launch.cwd = absolute;
    s->has_pipe = in == 1;
    s->bytes += cwd.n;
    return 0;
}

/* Adds one descriptor under the role that `name` gives. Only `cgroup` may come more than once. */
static int exec_spec_add_role(struct exec_spec *s, const struct json *name, size_t i, int fd,
                              struct err *e) {
    static const char *const names[] = {"stdout", "stderr", "status", "cgroup", "leaf"};
    struct launch *l = &s->launch;
    int role = 0;
    while (role < ROLE_COUNT &&
           !(name->type == JSON_STRING && str_is(name->text, str_of(names[role]))))
        role++;
    if (role == ROLE_COUNT || (role != ROLE_CGROUP && s->fds[role] >= 0))
        return err_field(e, "fd_roles", "entry %zu must be a known role, given once", i);
    if (role == ROLE_CGROUP && l->n_cgroup_files == LAUNCH_CGROUPS_MAX)
        return err_field(e, "fd_roles", "must have at most %d cgroups", LAUNCH_CGROUPS_MAX);
    if (role == ROLE_CGROUP)
        l->cgroup_files[l->n_cgroup_files++] = fd;
    s->fds[role] = fd;
    return 0;
}

static int exec_spec_read_roles(struct request *r, struct exec_spec *s, struct err *e) {
    const struct json *list;
    memset(s->fds, -1, sizeof s->fds);
    if (params_node(r->params, "fd_roles", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    size_t count = list ? list->items.count : 0, i = 0;
    if (count != r->n_fds)
        return err_field(e, "fd_roles", "must have %zu entries, one per descriptor, got %zu",
                         r->n_fds, count);
    for (const struct json *it = list ? list->items.first : NULL; it; it = it->next, i++)
        if (exec_spec_add_role(s, it, i, r->fds[i], e) < 0)
            return -(int)e->code;
    bool has_stderr = s->fds[ROLE_STDERR] >= 0;
    if (r->n_fds > 0 && (s->fds[ROLE_STDOUT] < 0 || has_stderr == exec_spec_is_merged(s)))
        return err_field(e, "fd_roles", "must have %s",
                         exec_spec_is_merged(s) ? "stdout and no stderr" : "stdout and stderr");
    s->launch.exec_cgroup = s->fds[ROLE_EXEC_CGROUP];
    return 0;
}

int exec_spec_read(struct request *r, struct exec_spec *s, struct err *e) {
    if (exec_spec_read_argv(r, s, e) < 0 || exec_spec_read_terminal(r, s, e) < 0 ||
        exec_spec_read_output(r, s, e) < 0 || exec_spec_read_rest(r, s, e) < 0 ||
        exec_spec_read_roles(r, s, e) < 0)
        return -(int)e->code;
    return 0;
}

/* An environment under construction. */
struct exec_spec_env {
    struct arena *arena;
    char **vars;
    size_t n;
    bool is_short; /* memory ran out */
};

/* Sets a variable and replaces an earlier one with the same key. */
static void exec_spec_set_var(struct exec_spec_env *env, struct str key, struct str value) {
    char *text = arena_alloc(env->arena, key.n + value.n + 2);
    if (!text) {
        env->is_short = true;
        return;
    }
    memcpy(text, key.p, key.n);
    text[key.n] = '=';
    memcpy(text + key.n + 1, value.p, value.n);
    text[key.n + 1 + value.n] = '\0';
    size_t at = 0;
    while (at < env->n && strncmp(env->vars[at], text, key.n + 1) != 0)
        at++;
    env->vars[at] = text;
    env->n += at == env->n;
}

/* Later variables replace earlier ones: the guest's defaults, the sandbox's, TERM, the request's. */
static int exec_spec_build_env(struct request *r, struct exec_spec *s, struct err *e) {
    const struct settings *settings = &r->guest->settings;
    struct exec_spec_env env = {.arena = &r->guest->arena};
    const struct json *list;
    if (params_node(r->params, "env", JSON_ARRAY, &list, e) < 0 ||
        (list && params_env(list, ENV_MAX, &s->bytes, e) < 0))
        return -(int)e->code;
    env.vars = arena_alloc(env.arena, (2 * ENV_MAX + ENV_OWN) * sizeof *env.vars);
    if (!env.vars)
        return exec_spec_no_memory("env", e);
    exec_spec_set_var(&env, STR("PATH"),
                      settings->path ? str_of(settings->path) : STR(DEFAULT_PATH));
    exec_spec_set_var(&env, STR("HOME"), s->user.home[0] ? str_of(s->user.home) : STR("/"));
    if (s->user.name[0]) {
        exec_spec_set_var(&env, STR("USER"), str_of(s->user.name));
        exec_spec_set_var(&env, STR("LOGNAME"), str_of(s->user.name));
    }
    for (char **it = settings->env; it && *it; it++) {
        const char *eq = strchr(*it, '=');
        exec_spec_set_var(&env, (struct str){*it, (size_t)(eq - *it)}, str_of(eq + 1));
    }
    if (s->has_terminal && s->term.n > 0)
        exec_spec_set_var(&env, STR("TERM"), s->term);
    for (const struct json *it = list ? list->items.first : NULL; it; it = it->next)
        exec_spec_set_var(&env, json_get(it, "key")->text, json_get(it, "value")->text);
    if (env.is_short)
        return exec_spec_no_memory("env", e);
    env.vars[env.n] = NULL;
    s->launch.env = env.vars;
    return 0;
}

/* Lists the paths at which argv[0] may be, from PATH in the program's own environment. A name with
 * a slash is a path already. */
static int exec_spec_find_paths(struct request *r, struct exec_spec *s, struct err *e) {
    struct arena *a = &r->guest->arena;
    char *name = s->launch.argv[0];
    struct str path = STR(""), dir;
    for (char **it = s->launch.env; *it; it++)
        if (strncmp(*it, "PATH=", 5) == 0)
            path = str_of(*it + 5);
    size_t count = 2, n = 0;
    for (size_t i = 0; i < path.n; i++)
        count += path.p[i] == ':';
    char **paths = arena_alloc(a, (count + 1) * sizeof *paths);
    if (!paths)
        return exec_spec_no_memory("PATH", e);
    bool is_path = strchr(name, '/') != NULL;
    if (is_path)
        paths[n++] = name;
    while (!is_path && str_split(&path, ':', &dir)) {
        size_t size = dir.n + strlen(name) + 3;
        paths[n] = arena_alloc(a, size);
        if (!paths[n])
            return exec_spec_no_memory("PATH", e);
        snprintf(paths[n++], size, "%.*s/%s", dir.n ? (int)dir.n : 1, dir.n ? dir.p : ".", name);
    }
    paths[n] = NULL;
    s->launch.paths = paths;
    return 0;
}

int exec_spec_resolve(struct request *r, struct exec_spec *s, struct err *e) {
    const char *fallback = r->guest->settings.user;
    struct str name = s->user_name.n || !fallback ? s->user_name : str_of(fallback);
    s->launch.user = &s->user;
    s->launch.privileges = &r->guest->privileges;
    if (user_find(&r->guest->users, &s->user, name, e) < 0 || exec_spec_build_env(r, s, e) < 0 ||
        exec_spec_find_paths(r, s, e) < 0)
        return -(int)e->code;
    if (s->bytes > ARGS_MAX_BYTES)
        return err_field(e, "argv", "with env and cwd must be at most %d bytes, got %zu",
                         ARGS_MAX_BYTES, s->bytes);
    return 0;
}
