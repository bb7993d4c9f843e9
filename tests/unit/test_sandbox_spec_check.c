#include "api/sandbox/sandbox_spec_check.h"

#include <stdio.h>

#include "harness.h"

#define ALL_FEATURES                                                          \
    (DRIVER_HAS_LIMIT_MEMORY | DRIVER_HAS_LIMIT_CPU | DRIVER_HAS_LIMIT_PIDS | \
     DRIVER_HAS_LIMIT_DISK | DRIVER_HAS_MOUNTS | DRIVER_HAS_LAYER_MEMORY |    \
     DRIVER_HAS_PROFILE_ROOT)

static struct arena arena;
static struct limits limits;
static const struct driver_ops ops = {.name = "native"};
static const struct driver_pause_ops pause_ops;
static struct driver driver = {.ops = &ops};
static struct spec_rules rules = {.limits = &limits};
static struct err e;

static void set_up(unsigned features) {
    limits_init(&limits);
    driver.features = features;
    driver.pause = &pause_ops;
    rules.driver = &driver;
    if (!arena.blocks)
        CHECK_INT(arena_init(&arena, 4096, 1 << 20), 0);
    arena_reset(&arena);
}

static int check_spec(const Berm__V1__SandboxSpec *asked, Berm__V1__SandboxSpec **ret) {
    e = (struct err){0};
    return spec_check(&rules, asked, &arena, ret, &e);
}

TEST(spec_check_fills_in_every_default) {
    Berm__V1__SandboxSpec *s;
    set_up(ALL_FEATURES);
    CHECK_INT(check_spec(NULL, &s), 0);
    CHECK_INT(s->limits->memory_bytes, 2147483648);
    CHECK_INT(s->limits->cpu_millis, 2000);
    CHECK_INT(s->limits->pids, 512);
    CHECK_INT(s->limits->disk_bytes, -1);
    CHECK_INT(s->limits->disk_inodes, -1);
    CHECK_INT(s->limits->output_bytes, 1073741824);
    CHECK_INT(s->limits->exec_wall_ms, -1);
    CHECK_INT(s->limits->execs, 256);
    CHECK_INT(s->lifetime->idle_ttl_ms, -1);
    CHECK_INT(s->lifetime->ttl_ms, -1);
    CHECK_INT(s->lifetime->idle_action, BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_STOP);
    CHECK_INT(s->lifetime->ttl_action, BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_DELETE);
    CHECK_INT(s->network->mode, BERM__V1__NETWORK_MODE__NETWORK_MODE_NONE);
    CHECK_INT(s->root->source_case, BERM__V1__ROOT_FILESYSTEM__SOURCE_HOST);
    CHECK_INT(s->root->layer, BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_DISK);
    CHECK_INT(s->profile, BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_USER);
    CHECK_STR(s->driver, "native");
    CHECK_STR(s->workspace, "/workspace");
}

TEST(spec_check_drops_unsupported_limits_unless_requested) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__Limits asked_limits = BERM__V1__LIMITS__INIT;
    set_up(ALL_FEATURES & ~(unsigned)DRIVER_HAS_LIMIT_MEMORY);
    asked.limits = &asked_limits;
    CHECK_INT(check_spec(&asked, &s), 0);
    CHECK_INT(s->limits->memory_bytes, -1);
    CHECK_INT(s->limits->pids, 512);
    asked_limits.memory_bytes = 64 << 20;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.limits.memory_bytes");
    CHECK(strstr(e.text, "memory_bytes") != NULL);
}

TEST(spec_check_enforces_limit_ranges) {
    static const struct {
        size_t offset;
        int64_t value;
        int64_t other_disk;
        const char *field; /* NULL: accepted */
    } rows[] = {
        {offsetof(Berm__V1__Limits, memory_bytes), (16 << 20) - 1, 0, "spec.limits.memory_bytes"},
        {offsetof(Berm__V1__Limits, memory_bytes), 16 << 20, 0, NULL},
        {offsetof(Berm__V1__Limits, memory_bytes), INT64_MAX, 0, "spec.limits.memory_bytes"},
        {offsetof(Berm__V1__Limits, memory_bytes), -1, 0, NULL},
        {offsetof(Berm__V1__Limits, memory_bytes), -2, 0, "spec.limits.memory_bytes"},
        {offsetof(Berm__V1__Limits, cpu_millis), 9, 0, "spec.limits.cpu_millis"},
        {offsetof(Berm__V1__Limits, cpu_millis), 10, 0, NULL},
        {offsetof(Berm__V1__Limits, pids), 7, 0, "spec.limits.pids"},
        {offsetof(Berm__V1__Limits, disk_bytes), 1 << 20, 0, "spec.limits.disk_bytes"},
        {offsetof(Berm__V1__Limits, disk_bytes), 4 << 20, 0, NULL},
        {offsetof(Berm__V1__Limits, disk_inodes), 127, 4 << 20, "spec.limits.disk_inodes"},
        {offsetof(Berm__V1__Limits, disk_inodes), 128, 4 << 20, NULL},
        {offsetof(Berm__V1__Limits, disk_inodes), 128, 0, "spec.limits.disk_inodes"},
        {offsetof(Berm__V1__Limits, output_bytes), -1, 0, "spec.limits.output_bytes"},
        {offsetof(Berm__V1__Limits, execs), -1, 0, "spec.limits.execs"},
        {offsetof(Berm__V1__Limits, exec_wall_ms), 1000, 0, NULL},
    };
    set_up(ALL_FEATURES);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
        Berm__V1__Limits asked_limits = BERM__V1__LIMITS__INIT;
        asked.limits = &asked_limits;
        asked_limits.disk_bytes = rows[i].other_disk;
        *(int64_t *)((char *)&asked_limits + rows[i].offset) = rows[i].value;
        CHECK_INT(check_spec(&asked, &s), rows[i].field ? -ERR_INVALID_ARGUMENT : 0);
        CHECK_STR(e.field, rows[i].field ? rows[i].field : "");
        if (!rows[i].field)
            CHECK_INT(*(int64_t *)((char *)s->limits + rows[i].offset), rows[i].value);
    }
}

static int check_label(const char *key, const char *value) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__KeyValue good = BERM__V1__KEY_VALUE__INIT, given = BERM__V1__KEY_VALUE__INIT;
    Berm__V1__KeyValue *list[] = {&good, &given};
    good.key = "good";
    given.key = (char *)key;
    given.value = (char *)value;
    asked.n_labels = 2;
    asked.labels = list;
    return check_spec(&asked, &s);
}

TEST(spec_check_validates_labels) {
    char key[80], value[1100];
    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    set_up(ALL_FEATURES);
    CHECK_INT(check_label("Team/a.b_c-1", ""), 0);
    key[63] = '\0';
    CHECK_INT(check_label(key, "x"), 0);
    key[63] = 'k', key[64] = '\0';
    CHECK_INT(check_label(key, "x"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.labels[1].key");
    CHECK_INT(check_label("", "x"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(check_label("a b", "x"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(check_label("berm/x", "x"), -ERR_INVALID_ARGUMENT);
    value[1024] = '\0';
    CHECK_INT(check_label("k", value), 0);
    value[1024] = 'v', value[1025] = '\0';
    CHECK_INT(check_label("k", value), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.labels[1].value");
    CHECK_INT(check_label("good", "x"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.labels");
}

TEST(spec_check_bounds_the_number_of_labels) {
    static char keys[65][4];
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__KeyValue items[65], *list[65];
    set_up(ALL_FEATURES);
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        berm__v1__key_value__init(&items[i]);
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        items[i].key = keys[i];
        list[i] = &items[i];
    }
    asked.labels = list;
    asked.n_labels = 64;
    CHECK_INT(check_spec(&asked, &s), 0);
    asked.n_labels = 65;
    CHECK_INT(check_spec(&asked, &s), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.limit, "labels.count");
    CHECK_INT(e.limit_value, 64);
}

static int check_env_name(const char *key) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__KeyValue given = BERM__V1__KEY_VALUE__INIT, *list[] = {&given};
    given.key = (char *)key;
    asked.n_env = 1;
    asked.env = list;
    return check_spec(&asked, &s);
}

TEST(spec_check_validates_the_environment) {
    set_up(ALL_FEATURES);
    CHECK_INT(check_env_name("_A1b"), 0);
    CHECK_INT(check_env_name("1A"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.env[0].key");
    CHECK_INT(check_env_name("A=B"), -ERR_INVALID_ARGUMENT);
    CHECK_INT(check_env_name(""), -ERR_INVALID_ARGUMENT);
}

TEST(spec_check_requires_an_absolute_clean_workspace) {
    static const char *const bad[] = {"w",   "./w", "/w/",   "/a//b", "/a/./b",
                                      "/..", "//",  "/a/..", " /w"};
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    set_up(ALL_FEATURES);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        asked.workspace = (char *)bad[i];
        CHECK_INT(check_spec(&asked, &s), -ERR_INVALID_ARGUMENT);
        CHECK_STR(e.field, "spec.workspace");
    }
    asked.workspace = "/a/..b/c.";
    CHECK_INT(check_spec(&asked, &s), 0);
}

TEST(spec_check_error_names_an_unsupported_field) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__DeviceRequest device = BERM__V1__DEVICE_REQUEST__INIT, *devices[] = {&device};
    Berm__V1__Network network = BERM__V1__NETWORK__INIT;
    Berm__V1__Lifetime lifetime = BERM__V1__LIFETIME__INIT;
    Berm__V1__RootFilesystem root = BERM__V1__ROOT_FILESYSTEM__INIT;
    Berm__V1__ImageRoot image = BERM__V1__IMAGE_ROOT__INIT;
    set_up(ALL_FEATURES);
    device.kind = "gpu";
    asked.n_devices = 1;
    asked.devices = devices;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK(strstr(e.text, "device \"gpu\"") != NULL);
    asked.n_devices = 0;
    asked.network = &network;
    network.mode = BERM__V1__NETWORK_MODE__NETWORK_MODE_OPEN;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.network.mode");
    driver.features |= DRIVER_HAS_OPEN;
    CHECK_INT(check_spec(&asked, &s), 0);
    asked.network = NULL;
    asked.lifetime = &lifetime;
    lifetime.wake_on_call = true;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.lifetime.wake_on_call");
    asked.lifetime = NULL;
    asked.root = &root;
    root.source_case = BERM__V1__ROOT_FILESYSTEM__SOURCE_IMAGE;
    root.image = &image;
    image.kind = BERM__V1__IMAGE_KIND__IMAGE_KIND_DIRECTORY;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK(strstr(e.text, "DIRECTORY") != NULL);
    asked.root = NULL;
    asked.driver = "docker";
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.driver");
}

TEST(spec_check_refuses_what_a_driver_without_capabilities_lacks) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__Lifetime lifetime = BERM__V1__LIFETIME__INIT;
    Berm__V1__RootFilesystem root = BERM__V1__ROOT_FILESYSTEM__INIT;
    Berm__V1__Mount mount = BERM__V1__MOUNT__INIT, *mounts[] = {&mount};
    set_up(0);
    driver.pause = NULL;
    CHECK_INT(check_spec(&asked, &s), 0);
    asked.lifetime = &lifetime;
    lifetime.idle_action = BERM__V1__LIFETIME_ACTION__LIFETIME_ACTION_PAUSE;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.lifetime.idle_action");
    asked.lifetime = NULL;
    asked.profile = BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.profile");
    asked.profile = BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_USER;
    asked.root = &root;
    root.layer = BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.root.layer");
    asked.root = NULL;
    mount.source = mount.target = "/data";
    asked.n_mounts = 1;
    asked.mounts = mounts;
    CHECK_INT(check_spec(&asked, &s), -ERR_UNSUPPORTED);
    CHECK_STR(e.field, "spec.mounts");
}

TEST(spec_check_refuses_unknown_enum_values) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    Berm__V1__Network network = BERM__V1__NETWORK__INIT;
    set_up(ALL_FEATURES);
    asked.profile = 77;
    CHECK_INT(check_spec(&asked, &s), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.profile");
    asked.profile = 0;
    asked.network = &network;
    network.mode = -1;
    CHECK_INT(check_spec(&asked, &s), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.network.mode");
}

TEST(spec_check_reports_an_invalid_request_before_a_missing_driver) {
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *s;
    set_up(0);
    rules.driver = NULL;
    rules.no_driver = "not root";
    CHECK_INT(check_spec(&asked, &s), -ERR_DRIVER_UNAVAILABLE);
    CHECK(strstr(e.text, "not root") != NULL);
    asked.workspace = "relative";
    CHECK_INT(check_spec(&asked, &s), -ERR_INVALID_ARGUMENT);
}

TEST(spec_check_update_changes_only_given_fields) {
    Berm__V1__UpdateSandboxRequest m = BERM__V1__UPDATE_SANDBOX_REQUEST__INIT;
    Berm__V1__LabelsUpdate labels = BERM__V1__LABELS_UPDATE__INIT;
    Berm__V1__Limits new_limits = BERM__V1__LIMITS__INIT;
    Berm__V1__KeyValue a = BERM__V1__KEY_VALUE__INIT, b = BERM__V1__KEY_VALUE__INIT,
                       b2 = BERM__V1__KEY_VALUE__INIT;
    Berm__V1__KeyValue *both[] = {&a, &b}, *set[] = {&b2};
    char *removed[] = {"a"};
    Berm__V1__SandboxSpec asked = BERM__V1__SANDBOX_SPEC__INIT, *old, *s;
    const char *parts[SPEC_PARTS];
    size_t n;
    a.key = "a", b.key = b2.key = "b", b2.value = "new";
    set_up(ALL_FEATURES);
    asked.n_labels = 2;
    asked.labels = both;
    CHECK_INT(check_spec(&asked, &old), 0);
    m.labels = &labels;
    labels.n_set = labels.n_remove = 1;
    labels.set = set;
    labels.remove = removed;
    CHECK_INT(spec_check_update(&rules, old, &m, &arena, &s, parts, &n, &e), 0);
    CHECK_INT(s->n_labels, 1);
    CHECK_STR(s->labels[0]->value, "new");
    CHECK_INT(n, 1);
    CHECK_STR(parts[0], "labels");
    CHECK_INT(old->n_labels, 2);
    m.labels = NULL;
    m.limits = &new_limits;
    new_limits.pids = 99;
    CHECK_INT(spec_check_update(&rules, old, &m, &arena, &s, parts, &n, &e), 0);
    CHECK_INT(s->limits->pids, 99);
    CHECK_INT(s->limits->memory_bytes, old->limits->memory_bytes);
    CHECK_INT(s->n_labels, 2);
    CHECK_STR(parts[0], "limits");
    m.labels = &labels;
    removed[0] = "b";
    CHECK_INT(spec_check_update(&rules, old, &m, &arena, &s, parts, &n, &e), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "labels.remove[0]");
}
