/* run, exec, attach, logs, kill, ps. */
#include <signal.h>

#include "cli/cli.h"

#define SCREEN_BYTES ((uint64_t)16 * 1024)

const struct opt exec_opts[] = {
    {"interactive", 'i', NULL, "connect berm's standard input to the program"},
    {"tty", 't', NULL,
     "give the program a terminal; with -i, connect berm's terminal to it; Ctrl-P Ctrl-Q detaches"},
    {"timeout", 0, "TIME", "end the program after this time, with exit status 124"},
    {"grace", 0, "TIME",
     "time between SIGTERM and SIGKILL at the timeout; 0 sends SIGKILL immediately"},
    {"cwd", 'w', "DIR", "working directory; relative to the workspace"},
    {"user", 'u', "NAME", "user inside the sandbox that runs the program"},
    {"merge", 0, NULL, "merge standard error into standard output, in the order of the writes"},
    {"output-limit", 0, "SIZE", "bytes of output to keep"},
    {"output-policy", 0, "WHAT",
     "action at that limit: drop the oldest bytes, block the program, or kill it"},
    {0},
};

/* By default, output into a pipe or file must be complete, so the program blocks until berm has
 * read its output. */
static bool fill_policy(struct cli *cli, Berm__V1__ExecSpec *spec) {
    static const char *const names[] = {"drop", "block", "kill", NULL};
    static const int policies[] = {BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST,
                                   BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_BLOCK,
                                   BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_KILL};
    bool waits = !opt_has(cli, "detach") && !isatty(STDOUT_FILENO);
    int policy = policies[waits];
    if (!opt_choice(cli, "output-policy", names, policies, &policy))
        return false;
    spec->output_policy = (Berm__V1__OutputPolicy)policy;
    return true;
}

bool exec_fill(struct cli *cli, Berm__V1__ExecSpec *spec) {
    berm__v1__exec_spec__init(spec);
    if (opt_has(cli, "tty") && cli->json && !opt_has(cli, "detach")) {
        opt_usage(cli, "-t: must not be used with --json, which has no terminal");
        return false;
    }
    if (opt_has(cli, "tty"))
        spec->terminal = terminal_fill(cli);
    spec->argv = cli->program;
    spec->n_argv = cli->n_program;
    spec->merge_stderr = opt_has(cli, "merge");
    if (opt_has(cli, "cwd"))
        spec->cwd = opt_get(cli, "cwd");
    if (opt_has(cli, "user"))
        spec->user = opt_get(cli, "user");
    if (!opt_duration(cli, "timeout", &spec->timeout_ms) ||
        !opt_duration(cli, "grace", &spec->grace_ms) ||
        !opt_size(cli, "output-limit", &spec->output_limit_bytes) || !fill_policy(cli, spec))
        return false;
    if (opt_has(cli, "grace") && spec->grace_ms == 0)
        /* -1 means SIGKILL immediately; 0 would select the daemon's default */
        spec->grace_ms = -1;
    return true;
}

/* --- run, exec --- */

static int run_in(struct foreground *f, struct cli *cli, Berm__V1__Sandbox *s,
                  Berm__V1__ExecSpec *spec) {
    if (s->state == BERM__V1__SANDBOX_STATE__SANDBOX_STATE_READY) {
        uint64_t left_out;
        int status = 0;
        if (opt_has(cli, "copy-here"))
            status = tree_put(cli, ".", s->sandbox_id, (char *)".", &left_out);
        return status != 0 ? status
                           : foreground_run(f, s->sandbox_id, spec, opt_has(cli, "interactive"));
    }
    return cli_complain("sandbox %s did not become ready: %s", s->sandbox_id,
                        s->reason ? cli_clean(cli, s->reason->message) : "no reason given");
}

int cmd_run(struct cli *cli) {
    struct berm_error e;
    Berm__V1__ExecSpec spec;
    Berm__V1__Sandbox *s;
    int status;
    if (!exec_fill(cli, &spec))
        return EXIT_BERM;
    struct foreground *f = foreground_begin(cli);
    if (sandbox_make(cli, true, &s, &e) == 0)
        status = run_in(f, cli, s, &spec);
    else if (e.code == BERM_CANCELLED)
        status = EXIT_SIGNAL + foreground_signal(f);
    else
        status = e.code == BERM_OK ? EXIT_BERM : cli_fail(cli, &e);
    foreground_end(f);
    if (s && (opt_has(cli, "keep") || cli->detached))
        fprintf(stderr, "berm: kept %s\n", s->sandbox_id);
    else if (s && sandbox_remove(cli, s->sandbox_id, &e) < 0)
        cli_fail(cli, &e);
    return status;
}

static int start_detached(struct cli *cli, Berm__V1__ExecSpec *spec) {
    struct berm_error e;
    Berm__V1__StartExecRequest request = BERM__V1__START_EXEC_REQUEST__INIT;
    Berm__V1__StartExecResponse *response;
    request.sandbox_id = cli->args[0];
    request.spec = spec;
    if (opt_has(cli, "exec-id"))
        request.exec_id = opt_get(cli, "exec-id");
    if (opt_has(cli, "interactive"))
        spec->stdin_mode = BERM__V1__STDIN_MODE__STDIN_MODE_PIPE;
    if (berm_exec_start(cli->client, &request, &response, &e) < 0)
        return start_failed(cli, &e);
    if (cli->json)
        cli_print_json(response->exec);
    else if (opt_has(cli, "quiet"))
        puts(response->exec->exec_id);
    else
        printf("%s %s in %s\n", response->exec->exec_id,
               cli_clean(cli, exit_text(cli, response->exec)), response->exec->sandbox_id);
    berm_free(response);
    return 0;
}

int cmd_exec(struct cli *cli) {
    Berm__V1__ExecSpec spec;
    if (!exec_fill(cli, &spec) || !opt_pairs(cli, "env", &spec.n_env, &spec.env) ||
        !opt_pairs(cli, "label", &spec.n_labels, &spec.labels))
        return EXIT_BERM;
    spec.keep_descendants = opt_has(cli, "keep-descendants");
    if (opt_has(cli, "detach"))
        return start_detached(cli, &spec);
    struct foreground *f = foreground_begin(cli);
    int status = foreground_run(f, cli->args[0], &spec, opt_has(cli, "interactive"));
    foreground_end(f);
    return status;
}

int cmd_shell(struct cli *cli) {
    char *login[] = {(char *)"sh", (char *)"-c",
                     (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL};
    Berm__V1__ExecSpec spec;
    Berm__V1__StartExecRequest start = BERM__V1__START_EXEC_REQUEST__INIT;
    Berm__V1__InteractRequest first = BERM__V1__INTERACT_REQUEST__INIT;
    if (cli->json)
        return opt_usage(cli, "a shell needs a terminal: no --json");
    if (!exec_fill(cli, &spec) || !opt_pairs(cli, "env", &spec.n_env, &spec.env))
        return EXIT_BERM;
    spec.argv = login;
    spec.n_argv = COUNT_OF(login) - 1;
    spec.terminal = terminal_fill(cli);
    spec.output_policy = BERM__V1__OUTPUT_POLICY__OUTPUT_POLICY_DROP_OLDEST;
    start.sandbox_id = cli->args[0];
    start.spec = &spec;
    if (opt_has(cli, "exec-id"))
        start.exec_id = opt_get(cli, "exec-id");
    first.part_case = BERM__V1__INTERACT_REQUEST__PART_START;
    first.start = &start;
    return terminal_run(cli, &first);
}

/* --- attach, logs --- */

/* An offset applies to one stream: stdout, unless the user names another stream. */
static bool fill_attach(struct cli *cli, Berm__V1__AttachExecRequest *request) {
    static const char *const names[] = {"stdout", "stderr", "both", NULL};
    static const int streams[] = {BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDOUT,
                                  BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR, 0};
    int64_t offset = 0, tail = 0;
    int stream = opt_has(cli, "since-offset") ? streams[0] : 0;
    if (!opt_number(cli, "since-offset", 0, INT64_MAX, &offset) || !opt_size(cli, "tail", &tail) ||
        !opt_choice(cli, "stream", names, streams, &stream))
        return false;
    if (opt_has(cli, "since-offset") && stream == 0) {
        opt_usage(
            cli,
            "--since-offset: must name an offset of one stream; use --stream stdout or stderr");
        return false;
    }
    request->exec_id = cli->args[0];
    request->tail_bytes = (uint64_t)tail;
    if (stream == streams[1])
        request->stderr_offset = (uint64_t)offset;
    else
        request->stdout_offset = (uint64_t)offset;
    if (stream != 0) {
        request->streams = cli_alloc(cli, sizeof *request->streams);
        request->streams[0] = (Berm__V1__OutputStream)stream;
        request->n_streams = 1;
    }
    return true;
}

struct logs {
    struct cli *cli;
    int status; /* exit status of the program, after it has ended */
};

static int on_log(const Berm__V1__AttachExecResponse *m, void *user) {
    struct logs *l = user;
    if (l->cli->json) {
        cli_print_json(m);
        if (m->event_case == BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_EXITED)
            l->status = exit_status_of(m->exited->exit);
        return 0;
    }
    if (m->event_case == BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_GAP)
        cli_complain("%llu bytes of output were dropped",
                     (unsigned long long)(m->gap->next_offset - m->gap->offset));
    if (m->event_case != BERM__V1__ATTACH_EXEC_RESPONSE__EVENT_OUTPUT)
        return 0;
    FILE *to = m->output->stream == BERM__V1__OUTPUT_STREAM__OUTPUT_STREAM_STDERR ? stderr : stdout;
    fwrite(m->output->data.data, 1, m->output->data.len, to);
    return fflush(to) != 0;
}

int cmd_logs(struct cli *cli) {
    struct berm_error e;
    struct logs logs = {.cli = cli};
    Berm__V1__AttachExecRequest request = BERM__V1__ATTACH_EXEC_REQUEST__INIT;
    if (!fill_attach(cli, &request))
        return EXIT_BERM;
    request.until_now = !opt_has(cli, "follow");
    int r = berm_exec_attach(cli->client, &request, on_log, &logs, &e);
    return r < 0 ? cli_fail(cli, &e) : r > 0 ? EXIT_BERM : 0;
}

/* Returns whether a running program has a terminal. Returns false on failure, because the caller's
 * next call reports the error. */
static bool has_terminal(struct cli *cli) {
    Berm__V1__GetExecRequest request = BERM__V1__GET_EXEC_REQUEST__INIT;
    Berm__V1__GetExecResponse *response;
    request.exec_id = cli->args[0];
    if (berm_exec_get(cli->client, &request, &response, NULL) < 0)
        return false;
    bool has = response->exec->spec && response->exec->spec->terminal && !response->exec->exit;
    berm_free(response);
    return has;
}

/* By default, starts with the last screens of output, not with all of it. */
static int attach_terminal(struct cli *cli, Berm__V1__AttachExecRequest *request) {
    Berm__V1__InteractRequest first = BERM__V1__INTERACT_REQUEST__INIT;
    if (!opt_has(cli, "since-offset") && !opt_has(cli, "tail"))
        request->tail_bytes = SCREEN_BYTES;
    first.part_case = BERM__V1__INTERACT_REQUEST__PART_ATTACH;
    first.attach = request;
    return terminal_run(cli, &first);
}

int cmd_attach(struct cli *cli) {
    struct berm_error e;
    struct logs logs = {.cli = cli};
    Berm__V1__AttachExecRequest request = BERM__V1__ATTACH_EXEC_REQUEST__INIT;
    if (!fill_attach(cli, &request))
        return EXIT_BERM;
    if (!cli->json && isatty(STDIN_FILENO) && has_terminal(cli))
        return attach_terminal(cli, &request);
    if (!cli->json)
        return foreground_attach(cli, &request, opt_has(cli, "interactive"));
    int r = berm_exec_attach(cli->client, &request, on_log, &logs, &e);
    return r < 0 ? cli_fail(cli, &e) : logs.status;
}

/* --- kill, ps --- */

/* Parses "TERM", "SIGTERM" or "15". */
static int signal_of(const char *text) {
    uint64_t number;
    if (str_to_u64(str_of(text), 1, 64, &number) == 0)
        return (int)number;
    if (strncmp(text, "SIG", 3) == 0)
        text += 3;
    for (int i = 1; i < NSIG; i++) {
        const char *name = sigabbrev_np(i);
        if (name && strcmp(name, text) == 0)
            return i;
    }
    return -1;
}

int cmd_kill(struct cli *cli) {
    struct berm_error e;
    int status = 0;
    Berm__V1__SignalExecRequest request = BERM__V1__SIGNAL_EXEC_REQUEST__INIT;
    const char *name = opt_has(cli, "signal") ? opt_get(cli, "signal") : "TERM";
    request.signal_number = signal_of(name);
    request.leader_only = opt_has(cli, "leader");
    if (request.signal_number < 0)
        return opt_usage(cli, "--signal: must be a name such as TERM, or 1 to 64, got \"%s\"",
                         name);
    for (size_t i = 0; i < cli->n_args; i++) {
        Berm__V1__SignalExecResponse *response;
        request.exec_id = cli->args[i];
        if (berm_exec_signal(cli->client, &request, &response, &e) < 0) {
            status = cli_fail(cli, &e);
            continue;
        }
        if (cli->json)
            cli_print_json(response);
        berm_free(response);
    }
    return status;
}

static const char *command_line(struct cli *cli, const Berm__V1__Exec *x) {
    const char *text = "";
    for (size_t i = 0; x->spec && i < x->spec->n_argv && strlen(text) < 4096; i++)
        text = cli_text(cli, "%s%s%s", text, i > 0 ? " " : "", x->spec->argv[i]);
    return text;
}

static void print_execs(struct cli *cli, const Berm__V1__ListExecsResponse *all) {
    static const char *const heads[] = {"EXEC", "SANDBOX", "STATE", "AGE", "COMMAND"};
    struct table t;
    table_init(&t, cli, heads, COUNT_OF(heads), 2);
    for (size_t i = 0; i < all->n_execs; i++) {
        const Berm__V1__Exec *x = all->execs[i];
        const char *cells[] = {x->exec_id, x->sandbox_id, exit_text(cli, x),
                               cli_age(cli, x->created_unix_ms), command_line(cli, x)};
        table_add(&t, cells);
    }
    table_print(&t);
}

static int list_all(struct cli *cli, Berm__V1__ListExecsRequest *request,
                    Berm__V1__ListExecsResponse *all, struct berm_error *e) {
    size_t cap = 0;
    for (;;) {
        Berm__V1__ListExecsResponse *page;
        int r = berm_exec_list(cli->client, request, &page, e);
        if (r < 0)
            return r;
        cli_keep(cli, page);
        if (all->n_execs + page->n_execs > cap) {
            cap = (all->n_execs + page->n_execs) * 2;
            Berm__V1__Exec **more = cli_alloc(cli, cap * sizeof *more);
            for (size_t i = 0; i < all->n_execs; i++)
                more[i] = all->execs[i];
            all->execs = more;
        }
        for (size_t i = 0; i < page->n_execs; i++)
            all->execs[all->n_execs++] = page->execs[i];
        all->sequence = page->sequence;
        if (page->next_page_token[0] == '\0')
            return 0;
        request->page_token = page->next_page_token;
    }
}

int cmd_ps(struct cli *cli) {
    struct berm_error e;
    Berm__V1__ExecState alive[] = {BERM__V1__EXEC_STATE__EXEC_STATE_STARTING,
                                   BERM__V1__EXEC_STATE__EXEC_STATE_RUNNING};
    Berm__V1__ListExecsRequest request = BERM__V1__LIST_EXECS_REQUEST__INIT;
    Berm__V1__ListExecsResponse all = BERM__V1__LIST_EXECS_RESPONSE__INIT;
    if (!opt_pairs(cli, "label", &request.n_label_selector, &request.label_selector))
        return EXIT_BERM;
    request.page_size = 1000;
    if (cli->n_args > 0)
        request.sandbox_id = cli->args[0];
    if (!opt_has(cli, "all")) {
        request.states = alive;
        request.n_states = COUNT_OF(alive);
    }
    if (list_all(cli, &request, &all, &e) < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(&all);
    else if (opt_has(cli, "quiet"))
        for (size_t i = 0; i < all.n_execs; i++)
            puts(all.execs[i]->exec_id);
    else
        print_execs(cli, &all);
    return 0;
}
