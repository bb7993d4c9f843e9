/* exec_start — the `exec` request: what it asks for, checked and made ready, then launched. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/programs.h"
#include "guest/guest.h"
#include "guest/exec/launch.h"
#include "guest/params.h"
#include "guest/path.h"
#include "guest/exec/pty.h"

#define ARGS_MAX_BYTES 131072
#define ARGV_MAX 4096
#define ENV_MAX 512

enum role { ROLE_STDOUT, ROLE_STDERR, ROLE_STATUS, ROLE_CGROUP, ROLE_LEAF, ROLE_COUNT };

struct spec {
    struct launch launch;
    struct user user;
    struct str user_name;
    bool has_terminal;
    int64_t cols, rows;
    struct str term;
    bool has_pipe;
    int64_t timeout_ms, grace_ms;
    int policy;
    int64_t limit_bytes;
    bool merge_stderr;
    bool keep_descendants;
    int fds[ROLE_COUNT]; /* borrowed from the request until exec takes them; -1: absent */
    size_t bytes;        /* of argv, env and cwd */
};

static int take_argv(struct request *r, struct spec *s, struct err *e) {
    const struct json *list;
    if (params_node(r->params, "argv", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return params_missing("argv", e);
    if (list->items.count == 0 || list->items.count > ARGV_MAX)
        return err_field(e, "argv", "has not 1 to %d entries", ARGV_MAX);
    char **argv = arena_alloc(&r->guest->arena, (list->items.count + 1) * sizeof *argv);
    size_t n = 0;
    JSON_FOR_EACH(it, list) {
        if (it->type != JSON_STRING || it->has_nul)
            return err_field(e, "argv", "entry %zu is no text without NUL", n);
        if (!argv || !(argv[n] = arena_copy(&r->guest->arena, it->text.p, it->text.n)))
            return err_set(e, ERR_LIMIT_REACHED, "no memory for argv");
        s->bytes += it->text.n + 1;
        n++;
    }
    argv[n] = NULL;
    if (argv[0][0] == '\0')
        return err_field(e, "argv", "names no program");
    s->launch.argv = argv;
    return 0;
}

static int put_env(struct arena *a, char **env, size_t *n, struct str key, struct str value) {
    char *text = arena_alloc(a, key.n + value.n + 2);
    if (!text)
        return -ENOMEM;
    memcpy(text, key.p, key.n);
    text[key.n] = '=';
    memcpy(text + key.n + 1, value.p, value.n);
    text[key.n + 1 + value.n] = '\0';
    size_t at = 0;
    while (at < *n && strncmp(env[at], text, key.n + 1) != 0)
        at++;
    env[at] = text;
    *n += at == *n;
    return 0;
}

/* What every program has, the sandbox's own, and the request's on top. */
static int take_env(struct request *r, struct spec *s, struct err *e) {
    struct arena *a = &r->guest->arena;
    const struct json *list;
    if (params_node(r->params, "env", JSON_ARRAY, &list, e) < 0 ||
        (list && params_env(list, ENV_MAX, &s->bytes, e) < 0))
        return -(int)e->code;
    char **env = arena_alloc(a, (2 * ENV_MAX + 8) * sizeof *env);
    if (!env)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for env");
    size_t n = 0;
    const char *path = r->guest->settings.path;
    int bad = put_env(a, env, &n, STR("PATH"), path ? str_of(path) : STR(DEFAULT_PATH));
    bad |= put_env(a, env, &n, STR("HOME"), s->user.home[0] ? str_of(s->user.home) : STR("/"));
    if (s->user.name[0]) {
        bad |= put_env(a, env, &n, STR("USER"), str_of(s->user.name));
        bad |= put_env(a, env, &n, STR("LOGNAME"), str_of(s->user.name));
    }
    for (char **it = r->guest->settings.env; it && *it; it++) {
        const char *eq = strchr(*it, '=');
        bad |= put_env(a, env, &n, (struct str){*it, (size_t)(eq - *it)}, str_of(eq + 1));
    }
    if (s->has_terminal && s->term.n > 0)
        bad |= put_env(a, env, &n, STR("TERM"), s->term);
    for (const struct json *it = list ? list->items.first : NULL; it; it = it->next)
        bad |= put_env(a, env, &n, json_get(it, "key")->text, json_get(it, "value")->text);
    if (bad)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for env");
    env[n] = NULL;
    s->launch.env = env;
    return 0;
}

/* Where the program may be, by PATH of its own environment; a name with a slash is taken as it is. */
static int find_paths(struct request *r, struct spec *s, struct err *e) {
    struct arena *a = &r->guest->arena;
    const char *name = s->launch.argv[0];
    struct str path = STR(""), dir;
    for (char **it = s->launch.env; *it; it++)
        if (strncmp(*it, "PATH=", 5) == 0)
            path = str_of(*it + 5);
    size_t count = 2;
    for (size_t i = 0; i < path.n; i++)
        count += path.p[i] == ':';
    char **paths = arena_alloc(a, (count + 1) * sizeof *paths);
    if (!paths)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for PATH");
    size_t n = 0;
    if (strchr(name, '/'))
        paths[n++] = s->launch.argv[0];
    while (n == 0 || paths[0] != s->launch.argv[0]) {
        if (!str_split(&path, ':', &dir))
            break;
        size_t room = dir.n + strlen(name) + 3;
        paths[n] = arena_alloc(a, room);
        if (!paths[n])
            return err_set(e, ERR_LIMIT_REACHED, "no memory for PATH");
        snprintf(paths[n++], room, "%.*s/%s", dir.n ? (int)dir.n : 1, dir.n ? dir.p : ".", name);
    }
    paths[n] = NULL;
    s->launch.paths = paths;
    return 0;
}

static int take_terminal(struct request *r, struct spec *s, struct err *e) {
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
    return s->cols > 0 && s->rows > 0 ? 0 : err_field(e, "terminal", "has no size");
}

static int take_output(struct request *r, struct spec *s, struct err *e) {
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
    return s->policy >= 0 && s->limit_bytes > 0 ? 0
                                                : err_field(e, "output", "has no policy or limit");
}

static int take_rest(struct request *r, struct spec *s, struct err *e) {
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

/* Which descriptor is what; any role but `cgroup` at most once. */
static int take_roles(struct request *r, struct spec *s, struct err *e) {
    static const char *const names[] = {"stdout", "stderr", "status", "cgroup", "leaf"};
    const struct json *list;
    memset(s->fds, -1, sizeof s->fds);
    s->launch.leaf = -1;
    if (params_node(r->params, "fd_roles", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if ((list ? list->items.count : 0) != r->n_fds)
        return err_field(e, "fd_roles", "does not name every descriptor");
    size_t i = 0;
    for (const struct json *it = list ? list->items.first : NULL; it; it = it->next, i++) {
        int role = 0;
        while (role < ROLE_COUNT &&
               !(it->type == JSON_STRING && str_is(it->text, str_of(names[role]))))
            role++;
        if (role == ROLE_COUNT || (role != ROLE_CGROUP && s->fds[role] >= 0))
            return err_field(e, "fd_roles", "entry %zu is unknown or given twice", i);
        if (role == ROLE_CGROUP && s->launch.n_cgroups == LAUNCH_CGROUPS_MAX)
            return err_field(e, "fd_roles", "names too many cgroups");
        if (role == ROLE_CGROUP)
            s->launch.cgroups[s->launch.n_cgroups++] = r->fds[i];
        s->fds[role] = r->fds[i];
    }
    bool one_stream = s->has_terminal || s->merge_stderr;
    if (r->n_fds > 0 && (s->fds[ROLE_STDOUT] < 0 || (s->fds[ROLE_STDERR] < 0) != one_stream))
        return err_field(e, "fd_roles", "names other streams than the program has");
    s->launch.leaf = s->fds[ROLE_LEAF];
    return 0;
}

/* A log where none was passed: the connection cannot carry descriptors. */
static int own_log(void) {
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | O_APPEND, 0600);
    if (fd < 0)
        fd = memfd_create("berm-output", MFD_CLOEXEC);
    return fd;
}

/* A descriptor of the request's that is ours from here on. */
static int take_fd(struct request *r, int fd) {
    for (size_t i = 0; i < r->n_fds; i++)
        if (r->fds[i] == fd)
            r->fds[i] = -1;
    return fd;
}

/* The exec owns a descriptor from the moment its log does. */
static int take_logs(struct request *r, struct spec *s, struct exec *x, struct err *e) {
    x->n_logs = s->has_terminal || s->merge_stderr ? 1 : 2;
    x->own_logs = r->n_fds == 0;
    for (size_t i = 0; i < x->n_logs; i++) {
        int fd = x->own_logs ? own_log() : s->fds[i == 0 ? ROLE_STDOUT : ROLE_STDERR];
        int error = fd < 0 ? -errno : outlog_init(&x->log[i], fd);
        if (error < 0 && x->own_logs && fd >= 0)
            close(fd);
        if (error < 0)
            return err_field(e, "fd_roles", "log %zu is no empty file open for writing (%d)", i,
                             -error);
        take_fd(r, fd);
    }
    struct stat st;
    if (s->fds[ROLE_STATUS] < 0)
        return 0;
    if (fstat(s->fds[ROLE_STATUS], &st) < 0 || !S_ISREG(st.st_mode))
        return err_field(e, "fd_roles", "status is no regular file");
    x->status_fd = take_fd(r, s->fds[ROLE_STATUS]);
    return 0;
}

static void fill(struct exec *x, const struct spec *s) {
    x->policy = (enum exec_policy)s->policy;
    x->limit_bytes = x->granted_bytes = (uint64_t)s->limit_bytes;
    x->keep_descendants = s->keep_descendants;
    x->grace_ms = s->grace_ms < 0 ? 0 : s->grace_ms == 0 ? GRACE_DEFAULT_MS : (uint64_t)s->grace_ms;
    x->in_closed = !s->has_pipe && !s->has_terminal;
}

/* Of a pipe, which has no other flags. */
static int set_nonblock(int fd) {
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* One pipe: `mine` joins the exec, `theirs` the program. */
static int make_pipe(int *ret_read, int *ret_write) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = fds[0];
    *ret_write = fds[1];
    return 0;
}

static int open_input(struct exec *x, struct spec *s) {
    int mine = -1, r = 0;
    if (!s->has_pipe) {
        s->launch.stdio[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (s->launch.stdio[0] >= 0)
            return 0;
    }
    r = make_pipe(&s->launch.stdio[0], &mine);
    if (r < 0)
        return r;
    if (!s->has_pipe) { /* an image without /dev/null: a pipe at its end reads the same */
        close(mine);
        return 0;
    }
    r = set_nonblock(mine);
    if (r == 0)
        r = exec_in_open(x, mine);
    if (r < 0)
        close(mine);
    return r;
}

static int open_output(struct exec *x, struct spec *s, enum exec_stream which) {
    int mine = -1;
    int r = make_pipe(&mine, &s->launch.stdio[1 + which]);
    if (r < 0)
        return r;
    r = set_nonblock(mine);
    if (r == 0)
        r = exec_out_open(x, which, mine);
    if (r < 0)
        close(mine);
    return r;
}

/* The program's three descriptors; those of the guest's side belong to the exec at once. */
static int open_stdio(struct exec *x, struct spec *s) {
    int *stdio = s->launch.stdio;
    if (s->has_terminal) {
        int r = pty_open(&s->user, (uint16_t)s->cols, (uint16_t)s->rows, &x->terminal, &stdio[0]);
        if (r < 0)
            return r;
        stdio[1] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
        stdio[2] = fcntl(stdio[0], F_DUPFD_CLOEXEC, 3);
        s->launch.terminal = true;
        return exec_out_open(x, STREAM_STDOUT, x->terminal);
    }
    int r = open_input(x, s);
    if (r == 0)
        r = open_output(x, s, STREAM_STDOUT);
    if (r < 0)
        return r;
    if (!s->merge_stderr)
        return open_output(x, s, STREAM_STDERR);
    stdio[2] = fcntl(stdio[1], F_DUPFD_CLOEXEC, 3);
    return stdio[2] < 0 ? -errno : 0;
}

/* Signals that are ignored stay so across execve; all others it resets itself. */
static uint64_t ignored_signals(void) {
    uint64_t ignored = 0, now[4]; /* the kernel's sigaction: the handler comes first */
    for (int sig = 1; sig <= 64; sig++)
        if (syscall(SYS_rt_sigaction, sig, NULL, now, sizeof now[0]) == 0 &&
            now[0] == (uint64_t)(uintptr_t)SIG_IGN)
            ignored |= UINT64_C(1) << (sig - 1);
    return ignored;
}

static int start(struct request *r, struct exec *x, struct spec *s, struct err *e) {
    int *stdio = s->launch.stdio;
    stdio[0] = stdio[1] = stdio[2] = -1;
    int error = open_stdio(x, s);
    struct launched got;
    if (error < 0)
        err_sys(e, ERR_LIMIT_REACHED, -error, "make %s", s->has_terminal ? "a terminal" : "pipes");
    else
        error = launch_program(&s->launch, &got, e);
    for (int i = 0; error == 0 && !s->has_terminal && i < (s->merge_stderr ? 1 : 2); i++)
        x->out[i].their_end = TAKE_FD(stdio[1 + i]);
    fd_close_all(stdio, 3);
    if (error < 0)
        return -(int)e->code;
    x->tree = (struct tree){
        .leaf = take_fd(r, s->launch.leaf), .leader = got.pid, .shepherd = got.shepherd};
    x->session = got.pid;
    if (got.report >= 0 && loop_add(&x->guest->loop, &x->report, got.report, EPOLLIN) < 0)
        abort(); /* the one failure is memory for one epoll entry, after all else was had */
    if (s->timeout_ms > 0)
        timer_start(&x->guest->loop, &x->timeout, (uint64_t)s->timeout_ms);
    return 0;
}

static int take_spec(struct request *r, struct spec *s, struct err *e) {
    if (take_argv(r, s, e) < 0 || take_terminal(r, s, e) < 0 || take_output(r, s, e) < 0 ||
        take_rest(r, s, e) < 0 || take_roles(r, s, e) < 0)
        return -(int)e->code;
    return 0;
}

/* What the sandbox itself says no to: told as an exit, for the request was right. */
static int try_start(struct request *r, struct spec *s, struct exec *x, struct err *e) {
    const char *fallback = r->guest->settings.user;
    struct str name = s->user_name.n || !fallback ? s->user_name : str_of(fallback);
    s->launch.user = &s->user;
    s->launch.privileges = &r->guest->privileges;
    if (user_find(&r->guest->users, &s->user, name, e) < 0 || take_env(r, s, e) < 0 ||
        find_paths(r, s, e) < 0)
        return -(int)e->code;
    if (s->bytes > ARGS_MAX_BYTES)
        return err_field(e, "argv", "with env and cwd is more than %d bytes", ARGS_MAX_BYTES);
    if (r->guest->execs.ignored == 0)
        r->guest->execs.ignored = ignored_signals(); /* SIGPIPE is one, so this is once */
    s->launch.ignored = r->guest->execs.ignored;
    return start(r, x, s, e);
}

int exec_method_exec(struct request *r, struct err *e) {
    struct guest *g = r->guest;
    struct str id;
    if (params_id(r->params, "exec_id", &id, e) < 0)
        return -(int)e->code;
    struct exec *x = execs_find(&g->execs, id);
    if (x) {
        exec_write_members(x, r->out);
        return 0;
    }
    struct spec s = {0};
    if (take_spec(r, &s, e) < 0)
        return -(int)e->code;
    if (g->execs.count >= EXECS_MAX || g->execs.running >= EXECS_RUNNING_MAX)
        return err_set(e, ERR_LIMIT_REACHED, "%zu programs are remembered, %zu run", g->execs.count,
                       g->execs.running);
    if (g->ending)
        return err_set(e, ERR_SANDBOX_NOT_READY, "the guest is ending");
    x = exec_new(g, id);
    if (!x)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for a program");
    fill(x, &s);
    if (take_logs(r, &s, x, e) < 0) {
        exec_free(x);
        return -(int)e->code;
    }
    int failed = try_start(r, &s, x, e);
    if (failed == -ERR_INVALID_ARGUMENT || failed == -ERR_LIMIT_REACHED) {
        exec_free(x);
        return failed;
    }
    exec_register(x);
    if (failed < 0)
        exec_ended_unstarted(x, e);
    exec_write_members(x, r->out);
    return 0;
}
