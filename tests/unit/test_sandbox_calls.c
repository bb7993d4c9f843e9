/* Runs the handlers of sandboxes and events on a real registry and store. The driver creates no
 * instance, so every sandbox fails immediately: the tests check who gets which reply, and when. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "api/context.h"
#include "api/methods.h"
#include "berm/v1/berm.pb-c.h"
#include "harness.h"

#define MESSAGES 64
#define STATE(name) BERM__V1__SANDBOX_STATE__SANDBOX_STATE_##name

/* --- a daemon without sockets --- */

static struct world {
    char dir[64];
    int dir_fd, sandboxes_fd;
    uv_loop_t loop;
    uv_timer_t tick; /* wakes the loop, which would block after running only a timer */
    struct deadlines deadlines;
    struct limits limits;
    struct driver drivers[2];
    size_t n_kept; /* by the sweeps */
    struct context context;
    struct api api;
    bool recovered, closed;
} w;

static void drv_close(struct driver *d) {
    (void)d;
}
static struct instance *drv_create(struct driver *d, const struct instance_spec *spec,
                                   const struct instance_events *events, void *user,
                                   struct err *e) {
    (void)d, (void)spec, (void)events, (void)user;
    err_set(e, ERR_PLACE_FAILED, "this driver makes none");
    return NULL;
}
static struct instance *drv_adopt(struct driver *d, const char *id,
                                  const struct instance_events *events, void *user, struct err *e) {
    return drv_create(d, &(struct instance_spec){.id = id}, events, user, e);
}
static void drv_discard(struct driver *d, const char *id, bool with_files, driver_done *done,
                        void *user) {
    (void)with_files;
    (void)d, (void)id;
    done(user, NULL);
}
static void drv_sweep(struct driver *d, const char *const *ids, size_t n, driver_done *done,
                      void *user) {
    (void)d, (void)ids;
    w.n_kept += n;
    done(user, NULL);
}
static const struct driver_ops driver_ops = {.name = "none",
                                             .close = drv_close,
                                             .create = drv_create,
                                             .adopt = drv_adopt,
                                             .discard = drv_discard,
                                             .sweep = drv_sweep};
static const struct driver_ops other_ops = {.name = "other",
                                            .close = drv_close,
                                            .create = drv_create,
                                            .adopt = drv_adopt,
                                            .discard = drv_discard,
                                            .sweep = drv_sweep};

static void on_tick(uv_timer_t *tick) {
    (void)tick;
}
static void on_recovered(struct registry *r, const struct err *e) {
    (void)r;
    w.recovered = e == NULL;
}
static void on_closed(void *user) {
    (void)user;
    w.closed = true;
}

/* A daemon with the first n of the two drivers. */
static void daemon_begin(size_t n_drivers) {
    struct err e;
    struct api_auth auth = {.open = true};
    char path[96];
    snprintf(path, sizeof path, "%s/sandboxes", w.dir);
    w.recovered = w.closed = false;
    w.n_kept = 0;
    w.dir_fd = open(w.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w.sandboxes_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    uv_loop_init(&w.loop);
    uv_timer_init(&w.loop, &w.tick);
    uv_timer_start(&w.tick, on_tick, 1, 1);
    deadlines_init(&w.deadlines, &w.loop);
    limits_init(&w.limits);
    w.limits.of[LIMIT_SANDBOXES_PARKED] = 0; /* this driver cannot create any */
    struct env env = {.loop = &w.loop,
                      .deadlines = &w.deadlines,
                      .limits = &w.limits,
                      .state_dir_fd = w.dir_fd,
                      .sandboxes_fd = w.sandboxes_fd,
                      .run_id = "run",
                      .version = "0",
                      .drivers = {&w.drivers[0], &w.drivers[1]},
                      .n_drivers = n_drivers};
    CHECK_INT(registry_open(&env, &w.context.registry, &e), 0);
    w.context.facts = (struct system_facts){.instance_id = "i", .limits = &w.limits};
    mutations_init(&w.context.mutations);
    CHECK_INT(api_init(&w.api, api_daemon_methods(), 1, &auth), 0);
    w.api.user = &w.context;
    w.api.access_log = false;
    registry_recover(w.context.registry, on_recovered);
    while (!w.recovered)
        uv_run(&w.loop, UV_RUN_ONCE);
}

static void world_begin(void) {
    char path[96];
    w = (struct world){.dir = "/tmp/berm-calls-XXXXXX",
                       .drivers = {{.ops = &driver_ops}, {.ops = &other_ops}}};
    CHECK(mkdtemp(w.dir) != NULL);
    snprintf(path, sizeof path, "%s/sandboxes", w.dir);
    CHECK_INT(mkdir(path, 0700), 0);
    daemon_begin(1);
}

static void daemon_end(void) {
    registry_close(w.context.registry, on_closed, NULL);
    while (!w.closed)
        uv_run(&w.loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&w.tick, NULL);
    deadlines_close(&w.deadlines);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&w.loop), 0);
    api_done(&w.api);
    close(w.sandboxes_fd);
    close(w.dir_fd);
}

static void world_end(void) {
    char command[96];
    daemon_end();
    snprintf(command, sizeof command, "rm -r '%s'", w.dir);
    CHECK_INT(system(command), 0);
}

/* --- a client without a wire --- */

struct client {
    struct call call;
    struct call_peer peer;
    ProtobufCMessage *got[MESSAGES];
    size_t n;
    size_t room; /* messages until it is full; 0: never */
    bool finished;
    enum err_code code;
    char about[64];
};

static void wire_headers(struct call *c) {
    (void)c;
}
static enum call_push wire_send(struct call *c, const ProtobufCMessage *m) {
    struct client *k = container_of(c, struct client, call);
    uint8_t packed[65536];
    size_t n = protobuf_c_message_pack(m, packed);
    CHECK(n <= sizeof packed && k->n < MESSAGES);
    k->got[k->n++] = protobuf_c_message_unpack(m->descriptor, NULL, n, packed);
    return k->room != 0 && k->n >= k->room ? CALL_FULL : CALL_OK;
}
static void wire_finish(struct call *c, const struct call_status *status) {
    struct client *k = container_of(c, struct client, call);
    k->finished = true;
    k->code = status->err ? status->err->code : ERR_NONE;
    if (status->err && status->err->subject)
        snprintf(k->about, sizeof k->about, "%s", status->err->subject_id);
}
static const struct call_wire wire = {
    .send_headers = wire_headers, .send = wire_send, .finish = wire_finish};

static void begin_as(struct client *k, uid_t uid, const char *name, const void *m) {
    char path[96];
    *k = (struct client){.peer = {.is_unix = true, .uid = uid}, .room = k->room};
    k->call = (struct call){.api = &w.api, .wire = &wire, .peer = &k->peer, .opened = true};
    snprintf(path, sizeof path, "/berm.v1.SandboxService/%s", name);
    CHECK_INT(arena_init(&k->call.arena, 1024, 1 << 20), 0);
    k->call.method = api_find(&w.api, str_of(path));
    k->call.method->handler->on_message(&k->call, m);
}

static void begin(struct client *k, const char *name, const void *m) {
    k->room = 0;
    begin_as(k, 1000, name, m);
}

static void end(struct client *k) {
    for (size_t i = 0; i < k->n; i++)
        protobuf_c_message_free_unpacked(k->got[i], NULL);
    k->n = 0;
    arena_done(&k->call.arena);
}

static enum err_code finish(struct client *k) {
    while (!k->finished)
        uv_run(&w.loop, UV_RUN_ONCE);
    return k->code;
}

static void wait_for(struct client *k, size_t n) {
    while (k->n < n && !k->finished)
        uv_run(&w.loop, UV_RUN_ONCE);
}

/* Returns the sandbox in a reply. */
static const Berm__V1__Sandbox *shown(const struct client *k) {
    return ((const Berm__V1__GetSandboxResponse *)k->got[0])->sandbox;
}

static void make(const char *id, uid_t uid) {
    Berm__V1__CreateSandboxRequest m = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__SandboxSpec spec = BERM__V1__SANDBOX_SPEC__INIT;
    Berm__V1__KeyValue label = BERM__V1__KEY_VALUE__INIT, *labels[] = {&label};
    struct client k = {0};
    label.key = "set";
    label.value = "one";
    spec.n_labels = 1;
    spec.labels = labels;
    m.sandbox_id = (char *)id;
    m.spec = &spec;
    m.wait_ms = 10000;
    begin_as(&k, uid, "CreateSandbox", &m);
    CHECK_INT(finish(&k), 0);
    CHECK_STR(shown(&k)->sandbox_id, id);
    CHECK_INT(shown(&k)->state, STATE(FAILED));
    end(&k);
}

/* --- request ids --- */

TEST(sandbox_calls_with_one_request_id_act_once) {
    Berm__V1__CreateSandboxRequest m = BERM__V1__CREATE_SANDBOX_REQUEST__INIT, other = m;
    struct client a, b, c, again;
    world_begin();
    m.request_id = other.request_id = "r-1";
    other.sandbox_id = "other";
    begin(&a, "CreateSandbox", &m);
    begin(&b, "CreateSandbox", &m);
    begin(&c, "CreateSandbox", &other);
    CHECK_INT(finish(&c), ERR_REQUEST_ID_REUSED);
    CHECK_INT(finish(&a), 0);
    CHECK_INT(finish(&b), 0);
    CHECK_STR(shown(&a)->sandbox_id, shown(&b)->sandbox_id);
    m.wait_ms = 10000;
    begin(&again, "CreateSandbox", &m);
    CHECK_INT(finish(&again), 0);
    CHECK_STR(shown(&again)->sandbox_id, shown(&a)->sandbox_id);
    CHECK_INT(shown(&again)->state, STATE(FAILED));
    end(&a), end(&b), end(&c), end(&again);
    begin(&c, "CreateSandbox", &other);
    CHECK_INT(finish(&c), ERR_REQUEST_ID_REUSED);
    end(&c);
    begin_as(&c, 1001, "CreateSandbox", &other);
    CHECK_INT(finish(&c), 0);
    end(&c);
    world_end();
}

TEST(sandbox_calls_act_once_even_if_cancelled) {
    Berm__V1__CreateSandboxRequest m = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__ListSandboxesRequest list = BERM__V1__LIST_SANDBOXES_REQUEST__INIT;
    struct client a, b, c, l;
    world_begin();
    m.request_id = "r-1";
    begin(&a, "CreateSandbox", &m);
    begin(&b, "CreateSandbox", &m);
    call_cancel(&a.call, ERR_CANCELLED);
    call_cancel(&b.call, ERR_CANCELLED);
    begin(&c, "CreateSandbox", &m);
    CHECK_INT(finish(&c), 0);
    begin(&l, "ListSandboxes", &list);
    CHECK_INT(finish(&l), 0);
    CHECK_INT(((Berm__V1__ListSandboxesResponse *)l.got[0])->n_sandboxes, 1);
    end(&a), end(&b), end(&c), end(&l);
    world_end();
}

TEST(sandbox_calls_that_fail_leave_the_request_id_free) {
    Berm__V1__CreateSandboxRequest m = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    struct client a;
    world_begin();
    make("box", 1000);
    m.request_id = "r-1";
    m.sandbox_id = "box";
    begin(&a, "CreateSandbox", &m);
    CHECK_INT(finish(&a), ERR_SANDBOX_EXISTS);
    CHECK_STR(a.about, "box");
    end(&a);
    m.sandbox_id = "box-2";
    begin(&a, "CreateSandbox", &m);
    CHECK_INT(finish(&a), 0);
    end(&a);
    world_end();
}

/* --- several drivers --- */

static enum err_code ask_about(const char *method, const void *m) {
    struct client k;
    begin(&k, method, m);
    enum err_code code = finish(&k);
    if (code == ERR_NONE)
        CHECK_STR(shown(&k)->spec->driver, "other");
    end(&k);
    return code;
}

static enum err_code delete_box(const char *id) {
    Berm__V1__DeleteSandboxRequest m = BERM__V1__DELETE_SANDBOX_REQUEST__INIT;
    struct client k;
    m.sandbox_id = (char *)id;
    m.wait_ms = 10000;
    begin(&k, "DeleteSandbox", &m);
    enum err_code code = finish(&k);
    end(&k);
    return code;
}

TEST(sandbox_whose_driver_is_not_loaded_keeps_its_record) {
    Berm__V1__CreateSandboxRequest m = BERM__V1__CREATE_SANDBOX_REQUEST__INIT;
    Berm__V1__SandboxSpec spec = BERM__V1__SANDBOX_SPEC__INIT;
    Berm__V1__GetSandboxRequest get = BERM__V1__GET_SANDBOX_REQUEST__INIT;
    Berm__V1__StartSandboxRequest start = BERM__V1__START_SANDBOX_REQUEST__INIT;
    world_begin();
    daemon_end();
    daemon_begin(2);
    m.sandbox_id = get.sandbox_id = start.sandbox_id = "box";
    m.spec = &spec;
    m.wait_ms = 10000;
    spec.driver = "neither";
    CHECK_INT(ask_about("CreateSandbox", &m), ERR_UNSUPPORTED);
    spec.driver = "other";
    CHECK_INT(ask_about("CreateSandbox", &m), 0);
    make("first", 1000); /* uses the default driver */
    daemon_end();

    daemon_begin(1);
    CHECK_INT(w.n_kept, 1); /* a driver sweeps only its own sandboxes */
    CHECK_INT(ask_about("GetSandbox", &get), 0);
    CHECK_INT(ask_about("StartSandbox", &start), ERR_DRIVER_UNAVAILABLE);
    CHECK_INT(delete_box("box"), ERR_DRIVER_UNAVAILABLE);
    CHECK_INT(delete_box("first"), 0);
    daemon_end();

    daemon_begin(2);
    CHECK_INT(w.n_kept, 1);
    CHECK_INT(delete_box("box"), 0);
    world_end();
}

/* --- lists --- */

TEST(sandbox_list_returns_own_sandboxes_once_newest_first) {
    static const char *const ids[] = {"b-1", "b-2", "b-3", "b-4", "b-5"};
    Berm__V1__ListSandboxesRequest m = BERM__V1__LIST_SANDBOXES_REQUEST__INIT;
    size_t left = COUNT_OF(ids);
    char token[64] = "";
    world_begin();
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        make(ids[i], 1000);
    make("stranger", 1001);
    m.page_size = 2;
    m.page_token = token;
    do {
        struct client k;
        begin(&k, "ListSandboxes", &m);
        CHECK_INT(finish(&k), 0);
        const Berm__V1__ListSandboxesResponse *page = (void *)k.got[0];
        for (size_t i = 0; i < page->n_sandboxes && CHECK(left > 0); i++)
            CHECK_STR(page->sandboxes[i]->sandbox_id, ids[--left]);
        CHECK(page->sequence > 0);
        snprintf(token, sizeof token, "%s", page->next_page_token);
        end(&k);
    } while (token[0] != '\0');
    CHECK_INT(left, 0);
    world_end();
}

/* --- deleting --- */

static size_t n_ids(const struct client *k) {
    return ((const Berm__V1__DeleteSandboxesResponse *)k->got[0])->n_sandbox_ids;
}

TEST(sandbox_delete_many_deletes_own_sandboxes_and_repeats_its_reply) {
    Berm__V1__DeleteSandboxesRequest m = BERM__V1__DELETE_SANDBOXES_REQUEST__INIT;
    Berm__V1__GetSandboxRequest get = BERM__V1__GET_SANDBOX_REQUEST__INIT;
    Berm__V1__DeleteSandboxRequest gone = BERM__V1__DELETE_SANDBOX_REQUEST__INIT;
    Berm__V1__KeyValue label = BERM__V1__KEY_VALUE__INIT, *labels[] = {&label};
    struct client k;
    world_begin();
    make("b", 1000), make("a", 1000), make("stranger", 1001);
    begin(&k, "DeleteSandboxes", &m);
    CHECK_INT(finish(&k), ERR_INVALID_ARGUMENT);
    end(&k);
    label.key = "set", label.value = "one";
    m.n_label_selector = 1;
    m.label_selector = labels;
    m.wait_ms = 10000;
    m.request_id = "d-1";
    for (unsigned i = 0; i < 2; i++) {
        begin(&k, "DeleteSandboxes", &m);
        CHECK_INT(finish(&k), 0);
        CHECK_INT(n_ids(&k), 2);
        CHECK_STR(((Berm__V1__DeleteSandboxesResponse *)k.got[0])->sandbox_ids[0], "a");
        end(&k);
    }
    get.sandbox_id = gone.sandbox_id = "a";
    begin(&k, "GetSandbox", &get);
    CHECK_INT(finish(&k), 0);
    CHECK_INT(shown(&k)->state, STATE(DELETED));
    end(&k);
    begin(&k, "DeleteSandbox", &gone);
    CHECK_INT(finish(&k), 0);
    CHECK_INT(shown(&k)->state, STATE(DELETED));
    end(&k);
    get.sandbox_id = "stranger";
    begin(&k, "GetSandbox", &get);
    CHECK_INT(finish(&k), ERR_SANDBOX_NOT_FOUND);
    end(&k);
    world_end();
}

/* --- events --- */

static const Berm__V1__WatchEventsResponse *item(const struct client *k, size_t i) {
    return (const void *)k->got[i];
}

TEST(events_are_replayed_then_caught_up_then_live) {
    Berm__V1__WatchEventsRequest m = BERM__V1__WATCH_EVENTS_REQUEST__INIT;
    struct client k;
    size_t n = 0, caught_up = 0;
    uint64_t last = 0;
    world_begin();
    make("a", 1000), make("stranger", 1001);
    m.start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE;
    begin(&k, "WatchEvents", &m);
    make("b", 1000);
    wait_for(&k, 5); /* two events each, and the boundary */
    for (; n < k.n; n++) {
        bool is_event = item(&k, n)->item_case == BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_EVENT;
        CHECK(is_event ? item(&k, n)->sequence > last : item(&k, n)->sequence >= last);
        last = item(&k, n)->sequence;
        if (is_event) {
            CHECK_INT(item(&k, n)->event->replayed, caught_up == 0);
            CHECK_STR(item(&k, n)->event->owner, "uid:1000");
        }
        caught_up += item(&k, n)->item_case == BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_CAUGHT_UP;
    }
    CHECK_INT(n, 5);
    CHECK_INT(caught_up, 1);
    k.call.method->handler->on_drain(&k.call);
    CHECK_INT(finish(&k), 0);
    CHECK_INT(item(&k, 5)->end->reason, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_DRAINING);
    end(&k);
    world_end();
}

TEST(events_continue_after_a_full_client_has_read) {
    Berm__V1__WatchEventsRequest m = BERM__V1__WATCH_EVENTS_REQUEST__INIT;
    struct client k = {.room = 1};
    world_begin();
    make("a", 1000), make("b", 1000);
    m.start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_OLDEST;
    m.until_now = true;
    begin_as(&k, 1000, "WatchEvents", &m);
    for (size_t n = 1; !k.finished && n < 10; n++) {
        CHECK_INT(k.n, n);
        k.room = n + 1;
        k.call.method->handler->on_writable(&k.call);
    }
    CHECK(k.finished);
    CHECK_INT(k.n, 6); /* four events, the boundary, the end */
    CHECK_INT(item(&k, 4)->item_case, BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_CAUGHT_UP);
    CHECK_INT(item(&k, 5)->end->reason, BERM__V1__STREAM_END_REASON__STREAM_END_REASON_COMPLETE);
    CHECK_INT(item(&k, 5)->sequence, item(&k, 4)->sequence);
    end(&k);
    world_end();
}

TEST(events_snapshot_comes_before_the_boundary) {
    Berm__V1__WatchEventsRequest m = BERM__V1__WATCH_EVENTS_REQUEST__INIT;
    struct client k;
    world_begin();
    make("a", 1000), make("b", 1000), make("stranger", 1001);
    m.include_snapshot = true;
    begin(&k, "WatchEvents", &m);
    CHECK_INT(k.n, 3);
    CHECK_STR(item(&k, 0)->sandbox->sandbox_id, "b");
    CHECK_STR(item(&k, 1)->sandbox->sandbox_id, "a");
    CHECK_INT(item(&k, 2)->item_case, BERM__V1__WATCH_EVENTS_RESPONSE__ITEM_CAUGHT_UP);
    call_cancel(&k.call, ERR_CANCELLED);
    end(&k);
    m.start_case = BERM__V1__WATCH_EVENTS_REQUEST__START_AFTER_SEQUENCE;
    begin(&k, "WatchEvents", &m);
    CHECK_INT(finish(&k), ERR_INVALID_ARGUMENT);
    end(&k);
    m.include_snapshot = false;
    m.after_sequence = 1000;
    begin(&k, "WatchEvents", &m);
    CHECK_INT(finish(&k), ERR_EVENT_CURSOR_AHEAD);
    CHECK_STR(k.about, "7"); /* the daemon's start, and two events each */
    end(&k);
    world_end();
}
