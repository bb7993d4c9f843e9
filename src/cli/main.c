/* berm — finds the command in the table, parses its options and arguments, and runs it. */
#include <errno.h>

#include "cli/cli.h"

#define ARENA_MAX ((size_t)1 << 30)

struct berm_client *cli_client(const struct cli *cli, int64_t connect_ms) {
    struct berm_options options = {.socket = opt_get(cli, "socket"),
                                   .address = opt_get(cli, "address"),
                                   .token_file = opt_get(cli, "token-file"),
                                   .connect_ms = connect_ms};
    return berm_client_new(&options);
}

/* A name like "daemon start" is two words of the command line. */
static const struct command *find_command(int argc, char **argv, int *ret_words) {
    for (size_t i = 0; i < n_commands; i++) {
        struct str second = str_of(commands[i].name), first;
        if (!str_split(&second, ' ', &first) || !str_is(first, str_of(argv[1])))
            continue;
        *ret_words = strchr(commands[i].name, ' ') ? 2 : 1;
        if (*ret_words == 1 || (argc > 2 && str_is(second, str_of(argv[2]))))
            return &commands[i];
    }
    return NULL;
}

#define NAME_MAX_CHARS 32
#define MISTAKES_MAX 2 /* largest edit distance at which berm suggests a name */

/* Returns the edit distance of a and b: characters to add, remove, change or swap with a
 * neighbour. */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), d[NAME_MAX_CHARS + 1][NAME_MAX_CHARS + 1];
    if (n > NAME_MAX_CHARS || m > NAME_MAX_CHARS)
        return NAME_MAX_CHARS;
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] =
                MIN(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), MIN(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n][m];
}

/* Returns the first word of a command: `daemon` of "daemon start". */
static const char *first_word(const char *command, char word[NAME_MAX_CHARS + 1]) {
    snprintf(word, NAME_MAX_CHARS + 1, "%.*s", (int)strcspn(command, " "), command);
    return word;
}

/* Returns the command that a mistyped name most likely meant; NULL if none is near. */
static const char *nearest_command(const char *name) {
    const char *nearest = NULL;
    char word[NAME_MAX_CHARS + 1];
    size_t least = MIN((size_t)MISTAKES_MAX + 1, strlen(name));
    for (size_t i = 0; i < n_commands; i++) {
        size_t mistakes = distance(name, first_word(commands[i].name, word));
        if (mistakes < least) {
            least = mistakes;
            nearest = commands[i].name;
        }
    }
    return nearest;
}

static int no_command(const char *name) {
    size_t shown = 0;
    const char *nearest = nearest_command(name);
    for (size_t i = 0; i < n_commands; i++) /* list the commands whose first word is `name` */
        if (str_starts(str_of(commands[i].name), str_of(name)) &&
            commands[i].name[strlen(name)] == ' ')
            fprintf(stderr, "%s berm %s", shown++ == 0 ? "berm: there are:" : ",",
                    commands[i].name);
    if (shown > 0)
        fputc('\n', stderr);
    else if (nearest)
        cli_complain("unknown command \"%s\"; did you mean `berm %s`?", name, nearest);
    else
        cli_complain("unknown command \"%s\"; `berm --help` lists them", name);
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
    if (!cli->command->no_daemon)
        daemon_ensure(cli);
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
        return help_docs(), 0;
    if (strcmp(first, "--dump-man") == 0)
        return help_man(), 0;
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
