#include "bermd/options.h"

#include <getopt.h>
#include <stdio.h>

#include "base/failpoint.h"

static const char help[] =
    "bermd: the Berm daemon, which runs sandboxes for agents.\n"
    "\n"
    "usage: bermd [options]\n"
    "  --state DIR       state directory of the daemon\n"
    "  --socket PATH     Unix socket to listen on\n"
    "  --listen ADDR     additional loopback HOST:PORT to listen on (token in DIR/token)\n"
    "  --config FILE     read knobs from FILE; other options override it\n"
    "  --set NAME=VALUE  set one knob\n"
    "  --print-config    print every knob with its meaning, range and value, and exit\n"
    "  --log-level LEVEL debug, info, warn or error\n"
    "  --stop-sandboxes  stop every sandbox when the daemon stops; otherwise they keep running\n"
    "  --list-failpoints print the names for BERM_FAILPOINT=NAME[:N], and exit\n"
    "  --version         print the version and exit\n"
    "  --help            print this and exit\n"
    "\n"
    "exit status: 0 stopped on request; 1 failed; 2 invalid usage or configuration;\n"
    "3 another daemon uses the state directory.\n";

enum {
    OPT_KNOB = 1,
    OPT_SET,
    OPT_CONFIG,
    OPT_PRINT,
    OPT_STOP_SANDBOXES,
    OPT_FAILPOINTS,
    OPT_VERSION,
    OPT_HELP
};

/* An option with the name of a knob sets that knob. */
static const struct option options[] = {
    {"state", required_argument, NULL, OPT_KNOB},
    {"socket", required_argument, NULL, OPT_KNOB},
    {"listen", required_argument, NULL, OPT_KNOB},
    {"log-level", required_argument, NULL, OPT_KNOB},
    {"set", required_argument, NULL, OPT_SET},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"print-config", no_argument, NULL, OPT_PRINT},
    {"stop-sandboxes", no_argument, NULL, OPT_STOP_SANDBOXES},
    {"list-failpoints", no_argument, NULL, OPT_FAILPOINTS},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static int options_set_pair(struct config *c, const char *pair, struct err *e) {
    struct str rest = str_of(pair);
    struct str name;
    if (!strchr(pair, '=') || !str_split(&rest, '=', &name))
        return err_set(e, ERR_INVALID_ARGUMENT, "--set: must be NAME=VALUE, got \"%s\"", pair);
    return config_set(c, name, rest, e);
}

static int options_set_option(struct config *c, int which, const char *name, const char *value,
                              bool in_file, struct err *e) {
    if (which == OPT_CONFIG)
        return in_file ? config_read(c, value, e) : 0;
    if (in_file)
        return 0;
    if (which == OPT_SET)
        return options_set_pair(c, value, e);
    if (strcmp(name, "log-level") == 0)
        name = "log_level";
    return config_set(c, str_of(name), str_of(value), e);
}

static void options_list_failpoints(void) {
    for (int i = 0; i < FAILPOINT_COUNT; i++)
        puts(failpoint_name((enum failpoint_id)i));
}

/* Handles options that print something and end the program. */
static bool options_print(int which) {
    if (which == OPT_HELP)
        fputs(help, stdout);
    else if (which == OPT_VERSION)
        printf("bermd %s\n", BERM_VERSION);
    else if (which == OPT_FAILPOINTS)
        options_list_failpoints();
    else
        return false;
    return true;
}

static int options_check(const struct options *o, const char *left_over, bool print) {
    const struct config *c = &o->config;
    if (left_over)
        fprintf(stderr, "bermd: unexpected argument \"%s\"; see bermd --help\n", left_over);
    else if (!print && (c->state[0] == '\0' || c->socket[0] == '\0'))
        fprintf(stderr, "bermd: HOME is not set; give --state and --socket\n");
    else if (print)
        config_print(c);
    else
        return -1;
    return print && !left_over ? EXIT_STOPPED : EXIT_USAGE;
}

int options_parse(struct options *o, int argc, char **argv) {
    struct err e;
    bool print = false;
    *o = (struct options){0};
    config_init(&o->config);
    for (int pass = 0; pass < 2; pass++) {
        int index = 0;
        optind = 1;
        opterr = pass == 0;
        for (int which; (which = getopt_long(argc, argv, "", options, &index)) != -1;) {
            if (options_print(which))
                return EXIT_STOPPED;
            if (which == '?')
                return EXIT_USAGE;
            print = print || which == OPT_PRINT;
            o->stop_sandboxes = o->stop_sandboxes || which == OPT_STOP_SANDBOXES;
            if (which < OPT_PRINT && options_set_option(&o->config, which, options[index].name,
                                                        optarg, pass == 0, &e) < 0) {
                fprintf(stderr, "bermd: %s\n", e.text);
                return EXIT_USAGE;
            }
        }
    }
    return options_check(o, optind < argc ? argv[optind] : NULL, print);
}
