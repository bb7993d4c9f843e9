/* The command line: parses options according to the command's lists, and values with units. */
#include <errno.h>
#include <stdarg.h>

#include "cli/cli.h"

const struct opt common_opts[] = {
    {"socket", 0, "PATH", "Unix socket of the daemon (BERM_SOCKET)"},
    {"address", 0, "HOST:PORT", "TCP address of the daemon (BERM_ADDRESS)"},
    {"token-file", 0, "FILE", "file with the token for --address (BERM_TOKEN_FILE)"},
    {"no-start", 0, NULL, "do not start a daemon when none is running (BERM_NO_START)"},
    {"json", 0, NULL, "print replies as JSON, with the field names of the contract"},
    {"help", 'h', NULL, "print this help and exit"},
    {0},
};
const struct opt quiet_opt[] = {{"quiet", 'q', NULL, "print only ids"}, {0}};

int opt_usage(const struct cli *cli, const char *fmt, ...) {
    va_list args;
    fprintf(stderr, "berm %s: ", cli->command->name);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\nsee: berm %s --help\n", cli->command->name);
    return EXIT_BERM;
}

static const struct opt *find_in(const struct opt *list, struct str name, char letter) {
    for (const struct opt *o = list; o && o->name; o++)
        if (name.p ? str_is(name, str_of(o->name)) : letter != 0 && o->letter == letter)
            return o;
    return NULL;
}

static const struct opt *find(const struct cli *cli, struct str name, char letter) {
    const struct opt *found = find_in(common_opts, name, letter);
    for (size_t i = 0; !found && i < COUNT_OF(cli->command->opts); i++)
        found = find_in(cli->command->opts[i], name, letter);
    return found;
}

static int keep(struct cli *cli, const struct opt *o, char *text) {
    if (cli->n_values == CLI_VALUES_MAX)
        return opt_usage(cli, "at most %d options", CLI_VALUES_MAX);
    cli->values[cli->n_values].name = o->name;
    cli->values[cli->n_values++].text = text;
    return -1;
}

/* Parses --name, --name VALUE and --name=VALUE. Advances *at past the words it used. */
static int take_long(struct cli *cli, char **argv, int argc, int *at) {
    char *word = argv[*at] + 2;
    char *equals = strchr(word, '=');
    struct str name = {word, equals ? (size_t)(equals - word) : strlen(word)};
    const struct opt *o = find(cli, name, 0);
    if (!o)
        return opt_usage(cli, "unknown option --%.*s", (int)name.n, name.p);
    if (!o->takes && equals)
        return opt_usage(cli, "--%s takes no value", o->name);
    if (!o->takes)
        return keep(cli, o, NULL);
    if (equals)
        return keep(cli, o, equals + 1);
    if (*at + 1 >= argc)
        return opt_usage(cli, "--%s needs %s", o->name, o->takes);
    return keep(cli, o, argv[++*at]);
}

/* Parses -a, -abc, -s VALUE and -sVALUE. */
static int take_short(struct cli *cli, char **argv, int argc, int *at) {
    for (char *letter = argv[*at] + 1; *letter != '\0'; letter++) {
        const struct opt *o = find(cli, (struct str){0}, *letter);
        if (!o)
            return opt_usage(cli, "unknown option -%c", *letter);
        char *value = NULL;
        if (o->takes && letter[1] != '\0')
            value = letter + 1;
        else if (o->takes && *at + 1 < argc)
            value = argv[++*at];
        else if (o->takes)
            return opt_usage(cli, "-%c needs %s", *letter, o->takes);
        int r = keep(cli, o, value);
        if (r >= 0 || value)
            return r;
    }
    return -1;
}

static int check_count(const struct cli *cli) {
    const struct command *c = cli->command;
    if (opt_has(cli, "help"))
        return -1;
    if (cli->n_args < (size_t)c->min_args || (c->has_program && cli->n_program == 0))
        return opt_usage(cli, "missing argument: berm %s %s", c->name, c->usage);
    if (c->max_args >= 0 && cli->n_args > (size_t)c->max_args)
        return opt_usage(cli, "unexpected argument \"%s\"", cli->args[c->max_args]);
    return -1;
}

int args_parse(struct cli *cli, int argc, char **argv) {
    const struct command *c = cli->command;
    cli->args = cli_alloc(cli, ((size_t)argc + 1) * sizeof *cli->args);
    for (int i = 0; i < argc; i++) {
        bool is_end = strcmp(argv[i], "--") == 0;
        if (!is_end && argv[i][0] == '-' && argv[i][1] != '\0') {
            int r = argv[i][1] == '-' ? take_long(cli, argv, argc, &i)
                                      : take_short(cli, argv, argc, &i);
            if (r >= 0)
                return r;
            continue;
        }
        if (c->has_program && (is_end || cli->n_args == (size_t)c->max_args)) {
            cli->program = argv + i + is_end;
            cli->n_program = (size_t)(argc - i - is_end);
            break;
        }
        if (is_end) { /* all further words are arguments */
            while (++i < argc)
                cli->args[cli->n_args++] = argv[i];
            break;
        }
        cli->args[cli->n_args++] = argv[i];
    }
    cli->json = opt_has(cli, "json");
    return check_count(cli);
}

/* --- values --- */

char *opt_next(const struct cli *cli, const char *name, size_t *at) {
    while (*at < cli->n_values) {
        size_t i = (*at)++;
        if (strcmp(cli->values[i].name, name) == 0)
            return cli->values[i].text ? cli->values[i].text : (char *)"";
    }
    return NULL;
}

char *opt_get(const struct cli *cli, const char *name) {
    char *last = NULL;
    size_t at = 0;
    for (char *text; (text = opt_next(cli, name, &at));)
        last = text;
    return last;
}

bool opt_has(const struct cli *cli, const char *name) {
    return opt_get(cli, name) != NULL;
}

size_t opt_count(const struct cli *cli, const char *name) {
    size_t at = 0, n = 0;
    while (opt_next(cli, name, &at))
        n++;
    return n;
}

bool opt_number(const struct cli *cli, const char *name, int64_t min, int64_t max, int64_t *value) {
    const char *text = opt_get(cli, name);
    uint64_t number;
    if (!text)
        return true;
    if (str_to_u64(str_of(text), (uint64_t)min, (uint64_t)max, &number) < 0) {
        opt_usage(cli, "--%s: must be a number from %lld to %lld, got \"%s\"", name, (long long)min,
                  (long long)max, text);
        return false;
    }
    *value = (int64_t)number;
    return true;
}

struct unit {
    const char *name;
    int64_t factor;
};

/* Parses a whole number with a unit; -1 for "none" or "never". */
static bool with_unit(const struct cli *cli, const char *name, const struct unit *units, size_t n,
                      const char *example, int64_t *value) {
    const char *text = opt_get(cli, name);
    if (!text)
        return true;
    if (strcmp(text, "none") == 0 || strcmp(text, "never") == 0) {
        *value = -1;
        return true;
    }
    size_t digits = strspn(text, "0123456789");
    uint64_t number;
    if (str_to_u64((struct str){text, digits}, 0, INT64_MAX, &number) == 0)
        for (size_t i = 0; i < n; i++)
            if (strcmp(text + digits, units[i].name) == 0 &&
                number <= (uint64_t)(INT64_MAX / units[i].factor)) {
                *value = (int64_t)number * units[i].factor;
                return true;
            }
    opt_usage(cli, "--%s: must be %s, got \"%s\"", name, example, text);
    return false;
}

bool opt_size(const struct cli *cli, const char *name, int64_t *value) {
    static const struct unit units[] = {{"", 1},
                                        {"K", INT64_C(1) << 10},
                                        {"M", INT64_C(1) << 20},
                                        {"G", INT64_C(1) << 30},
                                        {"T", INT64_C(1) << 40}};
    return with_unit(cli, name, units, COUNT_OF(units), "bytes, such as 512M or 4G, or none",
                     value);
}

bool opt_duration(const struct cli *cli, const char *name, int64_t *value_ms) {
    static const struct unit units[] = {{"", 1000},       {"ms", 1},          {"s", 1000},
                                        {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 86400 * 1000}};
    return with_unit(cli, name, units, COUNT_OF(units),
                     "a time, such as 500ms, 30s, 5m, 2h, or never", value_ms);
}

bool opt_choice(const struct cli *cli, const char *name, const char *const *names,
                const int *choices, int *value) {
    const char *text = opt_get(cli, name);
    if (!text)
        return true;
    for (size_t i = 0; names[i]; i++)
        if (strcmp(text, names[i]) == 0) {
            *value = choices[i];
            return true;
        }
    fprintf(stderr, "berm %s: --%s: must be", cli->command->name, name);
    for (size_t i = 0; names[i]; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : names[i + 1] ? "," : " or", names[i]);
    fprintf(stderr, ", got \"%s\"\n", text);
    return false;
}

bool opt_pairs(struct cli *cli, const char *name, size_t *ret_n, Berm__V1__KeyValue ***ret_pairs) {
    size_t n = 0, at = 0;
    Berm__V1__KeyValue **pairs =
        cli_alloc(cli, (opt_count(cli, name) + 1) * sizeof(Berm__V1__KeyValue *));
    for (char *text; (text = opt_next(cli, name, &at)); n++) {
        const char *equals = strchr(text, '=');
        if (!equals || equals == text) {
            opt_usage(cli, "--%s: must be KEY=VALUE, got \"%s\"", name, text);
            return false;
        }
        pairs[n] = cli_alloc(cli, sizeof **pairs);
        berm__v1__key_value__init(pairs[n]);
        pairs[n]->key = cli_text(cli, "%.*s", (int)(equals - text), text);
        pairs[n]->value = (char *)equals + 1;
    }
    *ret_n = n;
    *ret_pairs = pairs;
    return true;
}
