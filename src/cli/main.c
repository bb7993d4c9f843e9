/* berm — every command is a row of the table here; help and docs/cli.md are printed from it. */
#include <errno.h>

#include "cli/cli.h"

#define ARENA_MAX ((size_t)1 << 30)

static const struct opt create_own[] = {
    {"no-wait", 0, NULL, "answer once it is accepted, not once it is ready"},
    {0},
};
static const struct opt run_own[] = {
    {"keep", 0, NULL, "leave the sandbox when the program has ended"},
    {0},
};
static const struct opt ls_own[] = {
    {"label", 'l', "KEY=VALUE", "only sandboxes that bear it; may repeat"},
    {"state", 0, "STATE", "only this state, such as ready; may repeat"},
    {"all", 'a', NULL, "deleted ones too"},
    {0},
};
static const struct opt update_own[] = {
    {"label", 'l', "KEY=VALUE", "set a label; may repeat"},
    {"unlabel", 0, "KEY", "remove a label; may repeat"},
    {"memory", 'm', "SIZE", "memory of all programs together"},
    {"cpus", 0, "N", "processors"},
    {"pids", 0, "N", "processes and threads at once"},
    {"disk", 0, "SIZE", "bytes of its writable layer"},
    {"inodes", 0, "N", "files of its writable layer"},
    {"output", 0, "SIZE", "bytes of program output that are kept"},
    {"idle-ttl", 0, "TIME", "time without use until idle-action; replaces the whole lifetime"},
    {"idle-action", 0, "ACTION", "stop, pause or delete"},
    {"ttl", 0, "TIME", "time from now until ttl-action; replaces the whole lifetime"},
    {"ttl-action", 0, "ACTION", "delete, stop or pause"},
    {"wake", 0, NULL, "a call wakes it when idleness put it to sleep"},
    {0},
};
static const struct opt wait_own[] = {
    {"no-wait", 0, NULL, "answer once it is accepted, not once it is done"},
    {0},
};
static const struct opt stop_own[] = {
    {"grace", 0, "TIME", "between SIGTERM and SIGKILL; 0 = SIGKILL at once"},
    {0},
};
static const struct opt rm_own[] = {
    {"label", 'l', "KEY=VALUE", "every sandbox that bears it; may repeat, all must match"},
    {0},
};
static const struct opt exec_own[] = {
    {"detach", 'd', NULL, "start it and leave it: print its id, wait for nothing"},
    {"env", 'e', "KEY=VALUE", "a variable on top of the sandbox's; may repeat"},
    {"exec-id", 0, "ID", "the program's id; else the daemon makes one"},
    {"label", 'l', "KEY=VALUE", "a label; may repeat"},
    {"keep-descendants", 0, NULL, "what it started lives on after its end"},
    {0},
};
static const struct opt read_own[] = {
    {"since-offset", 0, "N", "begin with this byte of the stream (stdout unless --stream says)"},
    {"tail", 0, "SIZE", "begin this many bytes before the present end"},
    {"stream", 0, "WHICH", "stdout, stderr or both"},
    {0},
};
static const struct opt attach_own[] = {
    {"interactive", 'i', NULL, "give the program our standard input"},
    {0},
};
static const struct opt logs_own[] = {
    {"follow", 'f', NULL, "stay until the program has ended"},
    {0},
};
static const struct opt kill_own[] = {
    {"signal", 's', "SIGNAL", "a name or a number; TERM by default"},
    {"leader", 0, NULL, "only to the first process, not to all it started"},
    {0},
};
static const struct opt ps_own[] = {
    {"all", 'a', NULL, "ended ones too"},
    {"label", 'l', "KEY=VALUE", "only programs that bear it; may repeat"},
    {0},
};
static const struct opt events_own[] = {
    {"follow", 'f', NULL, "stay, and show events as they happen"},
    {"since", 0, "SEQUENCE", "events after this one; or oldest, or now"},
    {"label", 'l', "KEY=VALUE", "only of sandboxes that bear it; may repeat"},
    {0},
};
static const struct opt info_own[] = {
    {"limits", 0, NULL, "every limit in force"},
    {0},
};
static const struct opt daemon_own[] = {
    {"state", 0, "DIR", "folder of everything the daemon keeps"},
    {"listen", 0, "HOST:PORT", "loopback address to listen on as well"},
    {"config", 0, "FILE", "the daemon's configuration"},
    {"set", 0, "NAME=VALUE", "one knob of it; may repeat"},
    {"log-level", 0, "LEVEL", "debug, info, warn or error"},
    {"log", 0, "FILE", "where it logs; else bermd.log beside the socket"},
    {0},
};
static const struct opt debug_own[] = {
    {"state", 0, "DIR", "the daemon's state folder (BERM_STATE)"},
    {0},
};

static const struct command commands[] = {
    {"run",
     "[--] COMMAND [ARG]...",
     "run a command in a new sandbox, then remove the sandbox",
     "The exit status is the command's own. Ctrl-C goes to the command; a second one no longer waits.",
     {spec_opts, exec_opts, run_own},
     0,
     0,
     true,
     cmd_run},
    {"create",
     "",
     "make a sandbox",
     NULL,
     {spec_opts, create_own, quiet_opt},
     0,
     0,
     false,
     cmd_create},
    {"ls", "", "list sandboxes", NULL, {ls_own, quiet_opt}, 0, 0, false, cmd_ls},
    {"get",
     "SANDBOX|EXEC",
     "show a sandbox or a program, whole",
     "With --json it is the Sandbox or Exec message of the contract.",
     {0},
     1,
     1,
     false,
     cmd_get},
    {"update",
     "SANDBOX",
     "change labels, limits or lifetime; what is not named stays",
     NULL,
     {update_own},
     1,
     1,
     false,
     cmd_update},
    {"stop",
     "SANDBOX...",
     "end every program and keep the files",
     NULL,
     {stop_own, wait_own},
     1,
     -1,
     false,
     cmd_stop},
    {"start",
     "SANDBOX...",
     "bring a stopped sandbox back with its files",
     NULL,
     {wait_own},
     1,
     -1,
     false,
     cmd_start},
    {"pause",
     "SANDBOX...",
     "freeze every program where it stands",
     NULL,
     {wait_own},
     1,
     -1,
     false,
     cmd_pause},
    {"resume",
     "SANDBOX...",
     "let a paused sandbox go on",
     NULL,
     {wait_own},
     1,
     -1,
     false,
     cmd_resume},
    {"rm",
     "[SANDBOX]...",
     "remove sandboxes with their files and output",
     NULL,
     {rm_own, wait_own},
     0,
     -1,
     false,
     cmd_rm},
    {"exec",
     "SANDBOX [--] COMMAND [ARG]...",
     "run a command in a sandbox",
     "The exit status is the command's own. Into a pipe or a file the output arrives whole, however\n"
     "slow the reader: the command waits for it. Ctrl-C goes to the command; a second one no longer\n"
     "waits, and the command goes on. With --json there is one answer at its end, RunExecResponse.",
     {exec_opts, exec_own, quiet_opt},
     1,
     1,
     true,
     cmd_exec},
    {"attach",
     "EXEC",
     "show a program's output, follow it to the end, pass its exit status on",
     "Leaving never ends the program.",
     {read_own, attach_own},
     1,
     1,
     false,
     cmd_attach},
    {"logs",
     "EXEC",
     "show a program's output",
     "Also after its end, until the sandbox is removed.",
     {read_own, logs_own},
     1,
     1,
     false,
     cmd_logs},
    {"kill",
     "EXEC...",
     "send a signal to a program and all it started",
     NULL,
     {kill_own},
     1,
     -1,
     false,
     cmd_kill},
    {"ps", "[SANDBOX]", "list programs", NULL, {ps_own, quiet_opt}, 0, 1, false, cmd_ps},
    {"events",
     "[SANDBOX]...",
     "show what happened",
     "Without -f: every event that is kept, or those after --since. With it: from now on.",
     {events_own},
     0,
     -1,
     false,
     cmd_events},
    {"info", "", "what the daemon is and can do", NULL, {info_own}, 0, 0, false, cmd_info},
    {"ping", "", "whether the daemon answers", NULL, {0}, 0, 0, false, cmd_ping},
    {"daemon start",
     "[-- BERMD-OPTION...]",
     "start bermd and wait until it answers",
     "bermd is looked for beside berm, then in PATH.",
     {daemon_own},
     0,
     -1,
     false,
     cmd_daemon_start},
    {"daemon stop",
     "",
     "end the daemon at the socket; sandboxes go on",
     NULL,
     {0},
     0,
     0,
     false,
     cmd_daemon_stop},
    {"daemon status",
     "",
     "whether a daemon answers; exit status 1 when none does",
     NULL,
     {0},
     0,
     0,
     false,
     cmd_daemon_status},
    {"debug guest-log",
     "SANDBOX",
     "the conversation between the daemon and a sandbox's guest",
     "Read from the state folder, so it works without a daemon too.",
     {debug_own},
     1,
     1,
     false,
     cmd_guest_log},
};

/* --- help --- */

static const char exit_help[] =
    "exit status of run, exec and attach: the program's own; 128+N when signal N ended it; 124 its\n"
    "time was over; 125 berm or the daemon failed; 126 the program cannot be executed; 127 there is\n"
    "no such program; 137 also when the memory limit ended it, with a word on stderr.\n"
    "Other commands end with 0 or 125.\n";

static void print_opts(const struct opt *list) {
    for (const struct opt *o = list; o && o->name; o++) {
        char left[64];
        int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter)
                          : snprintf(left, sizeof left, "    ");
        snprintf(left + n, sizeof left - (size_t)n, "--%s%s%s", o->name, o->takes ? " " : "",
                 o->takes ? o->takes : "");
        printf("  %-32s %s\n", left, o->what);
    }
}

static void print_usage(const struct command *c) {
    printf("berm %s [OPTION]...%s%s\n", c->name, c->usage[0] != '\0' ? " " : "", c->usage);
}

static void help_command(const struct command *c) {
    printf("usage: ");
    print_usage(c);
    printf("\n%s\n", c->what);
    if (c->more)
        printf("%s\n", c->more);
    printf("\n");
    for (size_t i = 0; i < COUNT_OF(c->opts); i++)
        print_opts(c->opts[i]);
    print_opts(common_opts);
}

static void help_all(FILE *to) {
    fprintf(to, "usage: berm COMMAND [OPTION]...\n\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        fprintf(to, "  %-16s %s\n", commands[i].name, commands[i].what);
    fprintf(to,
            "\n`berm COMMAND --help` shows a command's options; docs/cli.md has them all.\n\n%s",
            exit_help);
}

static void docs_opts(const struct opt *list) {
    for (const struct opt *o = list; o && o->name; o++) {
        printf("| `");
        if (o->letter)
            printf("-%c`, `", o->letter);
        printf("--%s%s%s` | %s |\n", o->name, o->takes ? " " : "", o->takes ? o->takes : "",
               o->what);
    }
}

/* docs/cli.md; scripts/gen writes it. */
static void dump_docs(void) {
    printf(
        "<!-- Generated by `berm --dump-docs` from the table in src/cli/main.c; do not edit. -->\n"
        "# berm\n\nThe command line of Berm, a client of bermd like any other.\n\n```\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        printf("berm %-16s %s\n", commands[i].name, commands[i].what);
    printf(
        "```\n\n## Exit status\n```\n%s```\n\n## Options of every command\n| option | |\n|---|---|\n",
        exit_help);
    docs_opts(common_opts);
    printf(
        "\nA SIZE is bytes, or has K, M, G or T behind it (1024 each), or is `none`. A TIME is seconds,\n"
        "or has ms, s, m, h or d behind it, or is `never`.\n");
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command *c = &commands[i];
        printf("\n## berm %s\n```\n", c->name);
        print_usage(c);
        printf("```\n%c%s.\n", c->what[0] - ('a' - 'A'), c->what + 1);
        if (c->more)
            printf("%s\n", c->more);
        if (c->opts[0])
            printf("\n| option | |\n|---|---|\n");
        for (size_t j = 0; j < COUNT_OF(c->opts); j++)
            docs_opts(c->opts[j]);
    }
}

/* --- the run --- */

struct berm_client *cli_client(const struct cli *cli, int64_t connect_ms) {
    struct berm_options options = {.socket = opt_get(cli, "socket"),
                                   .address = opt_get(cli, "address"),
                                   .token_file = opt_get(cli, "token-file"),
                                   .connect_ms = connect_ms};
    return berm_client_new(&options);
}

/* "daemon start" is two words of the command line. */
static const struct command *find_command(int argc, char **argv, int *ret_words) {
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct str second = str_of(commands[i].name), first;
        if (!str_split(&second, ' ', &first) || !str_is(first, str_of(argv[1])))
            continue;
        *ret_words = strchr(commands[i].name, ' ') ? 2 : 1;
        if (*ret_words == 1 || (argc > 2 && str_is(second, str_of(argv[2]))))
            return &commands[i];
    }
    return NULL;
}

static int no_command(const char *name) {
    size_t shown = 0;
    for (size_t i = 0; i < COUNT_OF(commands); i++) /* the first word of several */
        if (str_starts(str_of(commands[i].name), str_of(name)) &&
            commands[i].name[strlen(name)] == ' ')
            fprintf(stderr, "%s berm %s", shown++ == 0 ? "berm: there are:" : ",",
                    commands[i].name);
    if (shown > 0)
        fputc('\n', stderr);
    else
        cli_complain("there is no command \"%s\"; `berm --help` lists them", name);
    return EXIT_BERM;
}

static int run_command(struct cli *cli, int argc, char **argv) {
    int status = args_parse(cli, argc, argv);
    if (status >= 0)
        return status;
    if (opt_has(cli, "help")) {
        help_command(cli->command);
        return 0;
    }
    const char *term = getenv("TERM");
    cli->color = isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && term && strcmp(term, "dumb") != 0;
    cli->client = cli_client(cli, 0);
    if (!cli->client)
        return cli_complain("out of memory");
    return cli->command->run(cli);
}

int main(int argc, char **argv) {
    struct cli cli = {0};
    int words = 0;
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0)
        return help_all(stdout), 0;
    if (strcmp(first, "--version") == 0)
        return printf("berm %s\n", BERM_VERSION), 0;
    if (strcmp(first, "--dump-docs") == 0)
        return dump_docs(), 0;
    if (argc < 2)
        return help_all(stderr), EXIT_BERM;
    cli.command = find_command(argc, argv, &words);
    if (!cli.command)
        return no_command(first);
    if (arena_init(&cli.arena, 65536, ARENA_MAX) < 0)
        return cli_complain("out of memory");
    int status = run_command(&cli, argc - 1 - words, argv + 1 + words);
    if (fflush(stdout) != 0)
        status = cli_complain("cannot write the output: %s", strerror(errno));
    if (cli.feeds)
        _exit(status);
    cli_done(&cli);
    return status;
}
