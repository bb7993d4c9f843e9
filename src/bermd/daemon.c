#include "bermd/daemon.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uv.h>

#include "api/context.h"
#include "api/methods.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "bermd/options.h"
#include "bermd/rights.h"
#include "bermd/state.h"
#include "core/files/file_work.h"
#include "core/registry/registry.h"
#include "core/imports/opener.h"
#include "drivers/native/native.h"
#include "transport/listener.h"
#include "transport/server.h"

/* The daemon creates these members in order. Shutdown closes them in reverse order, from the last
 * one that was created. */
struct daemon {
    uv_loop_t loop;
    const struct daemon_extra *extra;
    struct file_turns file_turns;
    struct options options;
    struct state state;
    struct rights rights;
    struct context context;
    struct api api;
    struct server server;
    struct listener listeners[2]; /* Unix, TCP */
    uv_signal_t signals[2];       /* SIGTERM, SIGINT */
    struct deadline drain_limit;
    struct driver *drivers[ENV_DRIVERS_MAX];
    size_t n_drivers;
    size_t n_opening;
    struct opener *opener;
    struct registry *registry;
    char no_driver[240]; /* why the daemon has no driver */
    struct err failure;  /* why the daemon ends; unset if it stops on request */
    bool serving;
    bool closing;
};

static const struct config *daemon_config(const struct daemon *d) {
    return &d->options.config;
}

/* --- stopping --- */

static void on_opener_closed(void *user) {
    struct daemon *d = user;
    d->opener = NULL;
    server_close(&d->server);
}

static void daemon_close_opener(struct daemon *d) {
    if (d->opener)
        opener_close(d->opener, on_opener_closed, d);
    else
        server_close(&d->server);
}

static void on_driver_closed(struct driver *driver) {
    struct daemon *d = driver->user;
    if (--d->n_drivers == 0)
        daemon_close_opener(d);
}

static void daemon_close_drivers(struct daemon *d) {
    if (d->n_drivers == 0)
        daemon_close_opener(d);
    for (size_t i = d->n_drivers; i-- > 0;) { /* the loop calls on_closed of each driver later */
        d->drivers[i]->on_closed = on_driver_closed;
        driver_close(d->drivers[i]);
    }
}

static void on_registry_closed(void *user) {
    struct daemon *d = user;
    d->context.registry = d->registry = NULL;
    daemon_close_drivers(d);
}

static void daemon_close_all(struct daemon *d) {
    if (d->closing)
        return;
    d->closing = true;
    deadline_clear(&d->server.deadlines, &d->drain_limit);
    for (size_t i = 0; i < COUNT_OF(d->listeners); i++)
        listener_close(&d->listeners[i]);
    for (size_t i = 0; i < COUNT_OF(d->signals); i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    signal(SIGTERM, SIG_IGN); /* ignore further signals, because the daemon is already stopping */
    signal(SIGINT, SIG_IGN);
    if (d->registry)
        registry_close(d->registry, on_registry_closed, d);
    else
        daemon_close_drivers(d);
}

static void on_sandboxes_stopped(struct registry *r) {
    daemon_close_all(registry_user(r));
}

static void on_drained(struct server *s) {
    struct daemon *d = s->user;
    if (d->options.stop_sandboxes && d->registry)
        registry_stop_all(d->registry, on_sandboxes_stopped);
    else
        daemon_close_all(d);
}

static void on_drain_limit(struct deadline *deadline) {
    struct daemon *d = container_of(deadline, struct daemon, drain_limit);
    log_text(LOG_WARN, "drain_limit", "closing the calls that are still open");
    server_cut(&d->server);
}

static void daemon_drain(struct daemon *d) {
    d->api.draining = true;
    for (size_t i = 0; i < COUNT_OF(d->listeners); i++)
        listener_close(&d->listeners[i]);
    uint64_t limit_us = (uint64_t)daemon_config(d)->limits.of[LIMIT_DRAIN_MAX] * 1000;
    deadline_set(&d->server.deadlines, &d->drain_limit, clock_us() + limit_us);
    server_drain(&d->server, on_drained);
}

/* The first signal lets open calls finish. The second one closes them. */
static void on_signal(uv_signal_t *handle, int number) {
    struct daemon *d = handle->data;
    if (d->api.draining) {
        server_cut(&d->server);
        return;
    }
    log_text(LOG_INFO, "stopping", "got %s", number == SIGTERM ? "SIGTERM" : "SIGINT");
    daemon_drain(d);
}

/* The daemon has dropped the rights to restart berm-spawn. Sandboxes keep running, and the next
 * daemon adopts them. */
static void on_driver_lost(struct driver *driver) {
    struct daemon *d = driver->user;
    if (d->api.draining || d->closing)
        return;
    err_set(&d->failure, ERR_DRIVER_UNAVAILABLE, "berm-spawn exited; restart bermd");
    log_text(LOG_ERROR, "driver", "%s", d->failure.text);
    daemon_drain(d);
}

static void daemon_fail(struct daemon *d, const struct err *e) {
    d->failure = *e;
    daemon_close_all(d);
}

/* --- starting: berm-spawn, then the records and running sandboxes, then the listeners --- */

/* Drops the read-only pages of one loaded object from memory. The kernel reloads a page from the
 * file when the page is used again. */
static int daemon_let_go_of_code(struct dl_phdr_info *info, size_t size, void *user) {
    (void)size, (void)user;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        return 0; /* the vDSO has no file */
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = (info->dlpi_addr + part->p_vaddr) & -page;
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        if (part->p_type == PT_LOAD && !(part->p_flags & PF_W))
            madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    return 0;
}

/* Frees memory that only startup needs. Startup touches twice as much code as the daemon needs
 * afterwards, most of it in SQLite, and no other process shares these pages. */
static void daemon_let_go_of_start(void) {
    malloc_trim(0);
    dl_iterate_phdr(daemon_let_go_of_code, NULL);
}

static void on_recovered(struct registry *r, const struct err *e) {
    struct daemon *d = registry_user(r);
    struct err failed;
    if (e) {
        daemon_fail(d, e);
        return;
    }
    if (d->api.draining || d->closing)
        return;
    for (size_t i = 0; i < COUNT_OF(d->listeners); i++)
        if (d->listeners[i].open && listener_start(&d->listeners[i], &failed) < 0) {
            daemon_fail(d, &failed);
            return;
        }
    d->serving = true;
    daemon_let_go_of_start();
}

static void daemon_open_registry(struct daemon *d) {
    struct err e;
    const struct config_uids *token = &daemon_config(d)->token_uid;
    if (d->rights.open_fd >= 0)
        d->opener = opener_new(&d->loop, &d->server.deadlines, TAKE_FD(d->rights.open_fd));
    struct env env = {
        .loop = &d->loop,
        .file_turns = &d->file_turns,
        .deadlines = &d->server.deadlines,
        .limits = &daemon_config(d)->limits,
        .state_dir_fd = d->state.dir_fd,
        .sandboxes_fd = d->rights.sandboxes_fd,
        .run_id = d->state.run_id,
        .version = BERM_VERSION,
        .host_was_rebooted = d->state.host_was_rebooted,
        .n_drivers = d->n_drivers,
        .no_driver = d->no_driver,
        .opener = d->opener,
        .no_opener = "the knob mount_roots is empty",
        .token_uid = token->n > 0 ? (int64_t)token->uids[0] : -1,
        .user = d,
    };
    memcpy(env.drivers, d->drivers, sizeof env.drivers);
    int r = registry_open(&env, &d->registry, &e);
    if (r < 0) {
        daemon_fail(d, &e);
        return;
    }
    d->context.registry = d->registry;
    registry_recover(d->registry, on_recovered);
}

/* Ends the daemon when a driver cannot be opened, because the daemon could not adopt running
 * sandboxes and must not record them as ended. */
static void on_driver_open(struct driver *driver, const struct err *e) {
    struct daemon *d = driver->user;
    if (d->closing)
        return;
    if (e)
        daemon_fail(d, e);
    else if (--d->n_opening == 0)
        daemon_open_registry(d);
}

static void daemon_add_driver(struct daemon *d, struct driver *driver) {
    driver->on_lost = on_driver_lost;
    d->drivers[d->n_drivers++] = driver;
    d->n_opening++;
}

/* Returns false when the driver cannot be opened and the daemon must end. */
static bool daemon_open_extra_driver(struct daemon *d) {
    struct err e;
    char guest[PATH_MAX];
    if (!d->extra->open_driver)
        return true;
    rights_find_program("berm-guest", daemon_config(d)->guest, guest, sizeof guest);
    struct driver *driver =
        d->extra->open_driver(&d->loop, d->state.dir_fd, guest, on_driver_open, d, &e);
    if (driver)
        daemon_add_driver(d, driver);
    else
        daemon_fail(d, &e);
    return driver != NULL;
}

static void daemon_open_drivers(struct daemon *d) {
    struct err e;
    if (!daemon_open_extra_driver(d))
        return;
    if (d->rights.spawn_fd >= 0) {
        int spawn_fd = TAKE_FD(d->rights.spawn_fd), run_dir_fd = TAKE_FD(d->rights.run_dir_fd);
        struct driver *native = native_open(&d->loop, spawn_fd, run_dir_fd, on_driver_open, d, &e);
        if (native)
            daemon_add_driver(d, native);
        else
            daemon_fail(d, &e);
        return;
    }
    if (d->n_drivers > 0)
        return;
    snprintf(d->no_driver, sizeof d->no_driver,
             "the native driver needs root; start bermd as root");
    log_text(LOG_WARN, "driver", "%s", d->no_driver);
    daemon_open_registry(d);
}

static int daemon_open_api(struct daemon *d, struct err *e) {
    struct api_methods tables[2] = {*api_daemon_methods()};
    const struct config *c = daemon_config(d);
    struct api_auth auth = {.uids = c->allow_uids.uids, .n_uids = c->allow_uids.n};
    const struct api_methods *extra = d->extra->methods;
    if (extra)
        tables[1] = *extra;
    if (c->listen[0] != '\0' && state_token(&d->state, auth.token, e) < 0)
        return -(int)e->code;
    if (api_init(&d->api, tables, extra ? 2 : 1, &auth) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    d->api.user = &d->context;
    d->api.access_log = c->access_log;
    return 0;
}

/* Binds the addresses before the daemon drops its privileges. listener_start accepts connections
 * later. */
static int daemon_bind_all(struct daemon *d, struct err *e) {
    const struct config *c = daemon_config(d);
    int r = state_make_parents(c->socket, 0755, e);
    if (r == 0)
        r = listener_unix(&d->listeners[0], &d->server, c->socket, (mode_t)c->socket_mode, e);
    if (r == 0 && c->listen[0] != '\0')
        r = listener_tcp(&d->listeners[1], &d->server, c->listen, e);
    return r;
}

static void daemon_watch_signals(struct daemon *d) {
    static const int numbers[] = {SIGTERM, SIGINT};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < COUNT_OF(d->signals); i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        d->signals[i].data = d;
        uv_signal_start(&d->signals[i], on_signal, numbers[i]);
    }
}

static void daemon_learn_facts(struct daemon *d) {
    d->context.facts = (struct system_facts){
        .version = BERM_VERSION,
        .instance_id = d->state.instance_id,
        .run_id = d->state.run_id,
        .started_us = clock_us(),
        .started_unix_ms = clock_unix_ms(),
        .limits = &daemon_config(d)->limits,
    };
    d->context.admins = daemon_config(d)->admins.uids;
    d->context.n_admins = daemon_config(d)->admins.n;
    mutations_init(&d->context.mutations);
}

/* Runs the daemon in the loop. A failure before the loop leaves nothing behind. */
static int daemon_run(struct daemon *d, struct err *e) {
    if (server_init(&d->server, &d->loop, &d->api, &daemon_config(d)->limits) < 0)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    d->server.user = d;
    deadline_init(&d->drain_limit, on_drain_limit);
    daemon_watch_signals(d);
    if (daemon_bind_all(d, e) < 0 || rights_drop(&d->rights, &d->state, e) < 0)
        daemon_fail(d, e);
    else
        daemon_open_drivers(d);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    server_done(&d->server);
    *e = d->failure;
    return e->code == ERR_NONE ? 0 : -(int)e->code;
}

static int daemon_open_and_run(struct daemon *d, struct err *e) {
    int r = state_open(&d->state, daemon_config(d)->state, e);
    if (r < 0)
        return r;
    d->rights =
        (struct rights){.spawn_fd = -1, .open_fd = -1, .run_dir_fd = -1, .sandboxes_fd = -1};
    r = daemon_open_api(d, e);
    if (r == 0) {
        r = rights_open(&d->rights, daemon_config(d), &d->state, e);
        daemon_learn_facts(d);
        /* libuv reads this variable when the first job starts the threads */
        setenv("UV_THREADPOOL_SIZE", FILE_WORK_THREADS, 1);
        uv_loop_init(&d->loop);
        file_turns_init(&d->file_turns, &d->loop);
        if (r == 0)
            r = daemon_run(d, e);
        if (uv_loop_close(&d->loop) != 0)
            log_text(LOG_ERROR, "leak", "a handle is still open at the end");
        api_done(&d->api);
    }
    rights_close(&d->rights);
    state_close(&d->state);
    return r;
}

/* Ensures that no descriptor we open becomes 0, 1 or 2, because log lines go to 2. */
static void daemon_hold_standard_fds(void) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            _exit(EXIT_BROKEN);
}

/* Makes malloc return the buffers of large messages to the system. By default it would keep them in
 * the heap after the first free, and the heap would grow by fragmentation. */
static void daemon_give_memory_back(void) {
    /* A block of a stream is larger than this threshold, but the pool keeps a spare block. */
    mallopt(M_MMAP_THRESHOLD, 128 * 1024 + 1);
    mallopt(M_TRIM_THRESHOLD, 512 * 1024);
}

int daemon_main(int argc, char **argv, const struct daemon_extra *extra) {
    static const struct daemon_extra none;
    /* The struct is large, and most of it is never touched. calloc does not touch the pages;
     * zeroing it on the stack would. */
    AUTO_FREE struct daemon *d = calloc(1, sizeof *d);
    struct err e;
    if (!d)
        return EXIT_BROKEN;
    d->extra = extra ? extra : &none;
    daemon_hold_standard_fds();
    daemon_give_memory_back();
    int status = options_parse(&d->options, argc, argv);
    if (status >= 0)
        return status;
    log_setup(STDERR_FILENO, (enum log_level)d->options.config.log_level);
    if (!failpoint_setup()) {
        log_text(LOG_ERROR, "failed",
                 "BERM_FAILPOINT: must name a failpoint; see --list-failpoints");
        return EXIT_USAGE;
    }
    if (daemon_open_and_run(d, &e) == 0) {
        log_text(LOG_INFO, "stopped", "version %s", BERM_VERSION);
        log_flush();
        return EXIT_STOPPED;
    }
    struct log_line line;
    if (log_begin(&line, LOG_ERROR, "failed")) {
        log_str(&line, "error", str_of(err_face(e.code)->name));
        log_str(&line, "state", str_of(d->options.config.state));
        log_str(&line, "text", str_of(e.text));
        log_end(&line);
    }
    return e.code == ERR_LIMIT_REACHED && d->state.lock_fd == -1 ? EXIT_HELD : EXIT_BROKEN;
}
