/* get: prints all details of a sandbox or program. */
#include "cli/cli.h"

static void line(const char *name, const char *value) {
    printf("%-12s %s\n", name, value);
}

static const char *local_time(struct cli *cli, int64_t unix_ms) {
    return unix_ms == 0 ? "-" : cli_text(cli, "%s ago", cli_age(cli, unix_ms));
}

static void show_limits(struct cli *cli, const Berm__V1__Limits *l) {
    line("limits", cli_text(cli, "memory %s, cpu %lld.%03lld, pids %lld, disk %s",
                            cli_bytes(cli, l->memory_bytes), (long long)(l->cpu_millis / 1000),
                            (long long)(l->cpu_millis % 1000), (long long)l->pids,
                            cli_bytes(cli, l->disk_bytes)));
}

static void show_sandbox(struct cli *cli, const Berm__V1__Sandbox *s) {
    line("sandbox", s->sandbox_id);
    line("state", cli_enum(cli, &berm__v1__sandbox_state__descriptor, (int)s->state));
    if (s->reason)
        line("because",
             cli_text(cli, "%s%s%s %s",
                      cli_enum(cli, &berm__v1__state_cause__descriptor, (int)s->reason->cause),
                      s->reason->code[0] != '\0' ? ", " : "", s->reason->code,
                      cli_clean(cli, s->reason->message)));
    line("owner", s->owner);
    line("incarnation", cli_text(cli, "%llu", (unsigned long long)s->incarnation));
    line("created", local_time(cli, s->created_unix_ms));
    line("programs", cli_text(cli, "%u running", s->running_execs));
    if (!s->spec)
        return;
    line("labels", cli_clean(cli, cli_pairs(cli, s->spec->n_labels, s->spec->labels)));
    line("driver", s->spec->driver);
    line("workspace", cli_clean(cli, s->spec->workspace));
    if (s->spec->limits)
        show_limits(cli, s->spec->limits);
}

static void show_exec(struct cli *cli, const Berm__V1__Exec *x) {
    line("exec", x->exec_id);
    line("sandbox", x->sandbox_id);
    line("state", exit_text(cli, x));
    line("created", local_time(cli, x->created_unix_ms));
    for (size_t i = 0; x->spec && i < x->spec->n_argv; i++)
        line(i == 0 ? "command" : "", cli_clean(cli, x->spec->argv[i]));
    for (size_t i = 0; i < x->n_output; i++)
        line(cli_enum(cli, &berm__v1__output_stream__descriptor, (int)x->output[i]->stream),
             cli_text(cli, "bytes %llu to %llu are kept",
                      (unsigned long long)x->output[i]->first_offset,
                      (unsigned long long)x->output[i]->end_offset));
    if (x->usage)
        line("used",
             cli_text(cli, "cpu %llu ms, wall %llu ms, memory %s",
                      (unsigned long long)(x->usage->cpu_user_us + x->usage->cpu_system_us) / 1000,
                      (unsigned long long)x->usage->wall_us / 1000,
                      cli_bytes(cli, (int64_t)x->usage->memory_peak_bytes)));
}

static int get_sandbox(struct cli *cli, char *id, struct berm_error *e) {
    Berm__V1__GetSandboxRequest request = BERM__V1__GET_SANDBOX_REQUEST__INIT;
    Berm__V1__GetSandboxResponse *response;
    request.sandbox_id = id;
    int r = berm_sandbox_get(cli->client, &request, &response, e);
    if (r < 0)
        return r;
    if (cli->json)
        cli_print_json(response->sandbox);
    else
        show_sandbox(cli, response->sandbox);
    berm_free(response);
    return 0;
}

static int get_exec(struct cli *cli, char *id, struct berm_error *e) {
    Berm__V1__GetExecRequest request = BERM__V1__GET_EXEC_REQUEST__INIT;
    Berm__V1__GetExecResponse *response;
    request.exec_id = id;
    int r = berm_exec_get(cli->client, &request, &response, e);
    if (r < 0)
        return r;
    if (cli->json)
        cli_print_json(response->exec);
    else
        show_exec(cli, response->exec);
    berm_free(response);
    return 0;
}

/* The prefix of a generated id tells its kind; for other ids a sandbox is tried first. */
int cmd_get(struct cli *cli) {
    struct berm_error e, second;
    char *id = cli->args[0];
    bool is_exec = str_starts(str_of(id), STR("ex-"));
    int r = is_exec ? get_exec(cli, id, &e) : get_sandbox(cli, id, &e);
    if (r == -(int)BERM_SANDBOX_NOT_FOUND && !str_starts(str_of(id), STR("sb-")) &&
        get_exec(cli, id, &second) == 0)
        r = 0;
    return r < 0 ? cli_fail(cli, &e) : 0;
}
