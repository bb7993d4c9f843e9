#include "bermd/daemon.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <uv.h>

#include "api/context.h"
#include "api/methods.h"
#include "base/clock.h"
#include "base/log.h"
#include "bermd/config.h"
#include "bermd/state.h"
#include "transport/listener.h"
#include "transport/server.h"

enum exit_status { EXIT_STOPPED = 0, EXIT_BROKEN = 1, EXIT_USAGE = 2, EXIT_HELD = 3 };

struct daemon {
    uv_loop_t loop;
    struct config config;
    struct state state;
    struct context context;
    struct api api;
    struct server server;
    struct listener listeners[2]; /* Unix, TCP */
    uv_signal_t signals[2];       /* SIGTERM, SIGINT */
    struct deadline drain_limit;
};

static const char help[] =
    "bermd: gives every agent its own computer.\n"
    "\n"
    "usage: bermd [options]\n"
    "  --state DIR       folder of everything the daemon keeps\n"
    "  --socket PATH     Unix socket to listen on\n"
    "  --listen ADDR     loopback HOST:PORT to listen on as well (token in DIR/token)\n"
    "  --config FILE     read knobs from FILE; options given here come on top\n"
    "  --set NAME=VALUE  set one knob\n"
    "  --print-config    print every knob with its meaning, range and value, and exit\n"
    "  --log-level LEVEL debug, info, warn or error\n"
    "  --version         print the version and exit\n"
    "  --help            print this and exit\n"
    "\n"
    "exit status: 0 stopped on request, 1 could not start or broke, 2 wrong usage or\n"
    "configuration, 3 the state folder is held by another daemon.\n";

/* --- the command line --- */

enum { OPT_KNOB = 1, OPT_SET, OPT_CONFIG, OPT_PRINT, OPT_VERSION, OPT_HELP };

/* An option with the name of a knob sets that knob. */
static const struct option options[] = {
    {"state", required_argument, NULL, OPT_KNOB},
    {"socket", required_argument, NULL, OPT_KNOB},
    {"listen", required_argument, NULL, OPT_KNOB},
    {"log-level", required_argument, NULL, OPT_KNOB},
    {"set", required_argument, NULL, OPT_SET},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"print-config", no_argument, NULL, OPT_PRINT},
    {"version", no_argument, NULL, OPT_VERSION},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static int set_pair(struct config *c, const char *pair, struct err *e) {
    struct str rest = str_of(pair);
    struct str name;
    if (!strchr(pair, '=') || !str_split(&rest, '=', &name))
        return err_set(e, ERR_INVALID_ARGUMENT, "--set %s: give NAME=VALUE", pair);
    return config_set(c, name, rest, e);
}

static int set_option(struct config *c, int which, const char *name, const char *value,
                      bool in_file, struct err *e) {
    if (which == OPT_CONFIG)
        return in_file ? config_read(c, value, e) : 0;
    if (in_file)
        return 0;
    if (which == OPT_SET)
        return set_pair(c, value, e);
    if (strcmp(name, "log-level") == 0)
        name = "log_level";
    return config_set(c, str_of(name), str_of(value), e);
}

/* Twice over the arguments: files first, then what the command line says on top. Answers the exit
 * status when there is nothing to run, -1 to go on. */
static int parse(struct config *c, int argc, char **argv) {
    struct err e;
    bool print = false;
    config_init(c);
    for (int pass = 0; pass < 2; pass++) {
        int index = 0;
        optind = 1;
        opterr = pass == 0;
        for (int which; (which = getopt_long(argc, argv, "", options, &index)) != -1;) {
            if (which == OPT_HELP) {
                fputs(help, stdout);
                return EXIT_STOPPED;
            }
            if (which == OPT_VERSION) {
                printf("bermd %s\n", BERM_VERSION);
                return EXIT_STOPPED;
            }
            if (which == '?')
                return EXIT_USAGE;
            print = print || which == OPT_PRINT;
            if (which != OPT_PRINT &&
                set_option(c, which, options[index].name, optarg, pass == 0, &e) < 0) {
                fprintf(stderr, "bermd: %s\n", e.text);
                return EXIT_USAGE;
            }
        }
    }
    if (optind < argc) {
        fprintf(stderr, "bermd: unexpected argument \"%s\"; see bermd --help\n", argv[optind]);
        return EXIT_USAGE;
    }
    if (!print && (c->state[0] == '\0' || c->socket[0] == '\0')) {
        fprintf(stderr, "bermd: there is no home folder: give --state and --socket\n");
        return EXIT_USAGE;
    }
    if (print)
        config_print(c);
    return print ? EXIT_STOPPED : -1;
}

/* --- stopping --- */

static void close_all(struct daemon *d) {
    deadline_clear(&d->server.deadlines, &d->drain_limit);
    server_close(&d->server);
    for (size_t i = 0; i < COUNT_OF(d->signals); i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    signal(SIGTERM, SIG_IGN); /* one that comes now asks for what is done already */
    signal(SIGINT, SIG_IGN);
}

static void on_drained(struct server *s) {
    close_all(s->user);
}

static void on_drain_limit(struct deadline *deadline) {
    struct daemon *d = container_of(deadline, struct daemon, drain_limit);
    log_text(LOG_WARN, "drain_limit", "cutting the calls that are still open");
    server_cut(&d->server);
}

/* The first signal lets open calls finish, the second does not wait. */
static void on_signal(uv_signal_t *handle, int number) {
    struct daemon *d = handle->data;
    if (d->api.draining) {
        server_cut(&d->server);
        return;
    }
    log_text(LOG_INFO, "stopping", "got %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    d->api.draining = true;
    for (size_t i = 0; i < COUNT_OF(d->listeners); i++)
        listener_close(&d->listeners[i]);
    uint64_t limit_us = (uint64_t)d->config.limits.of[LIMIT_DRAIN_MAX] * 1000;
    deadline_set(&d->server.deadlines, &d->drain_limit, clock_us() + limit_us);
    server_drain(&d->server, on_drained);
}

/* --- starting --- */

static int open_api(struct daemon *d, const struct api_methods *extra, struct err *e) {
    struct api_methods tables[2] = {*api_daemon_methods()};
    struct api_auth auth = {.uids = d->config.allow_uids, .n_uids = d->config.n_allow_uids};
    if (extra)
        tables[1] = *extra;
    if (d->config.listen[0] != '\0' && state_token(&d->state, auth.token, e) < 0)
        return -(int)e->code;
    if (api_init(&d->api, tables, extra ? 2 : 1, &auth) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "out of memory");
    requests_init(&d->context.requests);
    d->api.user = &d->context;
    d->api.access_log = d->config.access_log;
    return 0;
}

static int listen_all(struct daemon *d, struct err *e) {
    const struct config *c = &d->config;
    int r = state_make_parents(c->socket, 0755, e);
    if (r == 0)
        r = listener_unix(&d->listeners[0], &d->server, c->socket, (mode_t)c->socket_mode, e);
    if (r == 0 && c->listen[0] != '\0')
        r = listener_tcp(&d->listeners[1], &d->server, c->listen, e);
    return r;
}

static void watch_signals(struct daemon *d) {
    static const int numbers[] = {SIGTERM, SIGINT};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < COUNT_OF(d->signals); i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        d->signals[i].data = d;
        uv_signal_start(&d->signals[i], on_signal, numbers[i]);
    }
}

static void learn_facts(struct daemon *d) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    d->context.facts = (struct system_facts){
        .version = BERM_VERSION,
        .instance_id = d->state.instance_id,
        .run_id = d->state.run_id,
        .started_us = clock_us(),
        .started_unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
        .limits = &d->config.limits,
    };
}

/* Everything from here on runs in the loop; what fails before it leaves nothing behind. */
static int run(struct daemon *d, struct err *e) {
    if (server_init(&d->server, &d->loop, &d->api, &d->config.limits) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "out of memory");
    d->server.user = d;
    deadline_init(&d->drain_limit, on_drain_limit);
    watch_signals(d);
    int r = listen_all(d, e);
    if (r < 0) {
        for (size_t i = 0; i < COUNT_OF(d->listeners); i++)
            listener_close(&d->listeners[i]);
        close_all(d);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    server_done(&d->server);
    return r;
}

static int open_and_run(struct daemon *d, const struct api_methods *extra, struct err *e) {
    int r = state_open(&d->state, d->config.state, e);
    if (r < 0)
        return r;
    r = open_api(d, extra, e);
    if (r == 0) {
        learn_facts(d);
        uv_loop_init(&d->loop);
        r = run(d, e);
        if (uv_loop_close(&d->loop) != 0)
            log_text(LOG_ERROR, "leak", "a handle was still open at the end");
        api_done(&d->api);
    }
    state_close(&d->state);
    return r;
}

/* A descriptor we open must never be 0, 1 or 2: the log would go into it. */
static void hold_standard_fds(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            _exit(EXIT_BROKEN);
}

int daemon_main(int argc, char **argv, const struct api_methods *extra) {
    struct daemon d = {0};
    struct err e;
    hold_standard_fds();
    int status = parse(&d.config, argc, argv);
    if (status >= 0)
        return status;
    log_setup(STDERR_FILENO, (enum log_level)d.config.log_level);
    if (open_and_run(&d, extra, &e) == 0) {
        log_text(LOG_INFO, "stopped", "version %s", BERM_VERSION);
        log_flush();
        return EXIT_STOPPED;
    }
    log_text(LOG_ERROR, "failed", "%s", e.text);
    return e.code == ERR_LIMIT_REACHED && d.state.lock_fd == -1 ? EXIT_HELD : EXIT_BROKEN;
}
