#include "api/system/system.h"

#include <stdio.h>

#include "api/context.h"
#include "api/methods.h"
#include "base/clock.h"
#include "berm/v1/berm.pb-c.h"
#include "core/imports/tools.h"

#define SPEC_VERSION "1.0"

static void system_on_ping(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__PingRequest *request = (const Berm__V1__PingRequest *)m;
    Berm__V1__PingResponse response = BERM__V1__PING_RESPONSE__INIT;
    response.payload = request->payload;
    call_reply(c, &response.base);
}

const struct handler api_system_ping = {.on_message = system_on_ping};

/* Returns the limits as messages in the call's arena, or NULL when the arena is full. */
static Berm__V1__LimitInfo **system_limit_messages(struct call *c, const struct limits *limits) {
    Berm__V1__LimitInfo **list = arena_alloc(&c->arena, LIMIT_COUNT * sizeof *list);
    Berm__V1__LimitInfo *items = arena_alloc(&c->arena, LIMIT_COUNT * sizeof *items);
    if (!list || !items)
        return NULL;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        berm__v1__limit_info__init(&items[i]);
        items[i].name = (char *)limit_table[i].name;
        items[i].value = limits->of[i];
        items[i].unit = (char *)limit_unit_name(limit_table[i].unit);
        list[i] = &items[i];
    }
    return list;
}

/* The capabilities that GetInfo lists for a driver that has `feature`. Every driver has those with
 * feature 0. */
static const struct feature {
    unsigned feature;
    const char *name;
} features[] = {
    {0, "root.host"},
    {0, "layer.disk"},
    {DRIVER_HAS_LAYER_MEMORY, "layer.memory"},
    {0, "profile.user"},
    {DRIVER_HAS_PROFILE_ROOT, "profile.root"},
    {0, "network.none"},
    {DRIVER_HAS_LIMIT_MEMORY, "limit.memory"},
    {DRIVER_HAS_LIMIT_CPU, "limit.cpu"},
    {DRIVER_HAS_LIMIT_PIDS, "limit.pids"},
    {DRIVER_HAS_LIMIT_DISK, "limit.disk"},
    {DRIVER_HAS_LIMIT_DISK, "limit.inodes"},
    {DRIVER_HAS_EGRESS, "network.egress"},
    {DRIVER_HAS_OPEN, "network.open"},
};

/* Capabilities that are not in the table: "sandbox.pause", "mounts", "copies". */
#define OTHER_CAPABILITIES 3

struct driver_message {
    Berm__V1__DriverInfo info;
    char *capabilities[COUNT_OF(features) + OTHER_CAPABILITIES + TOOLS_MAX];
    char tools[TOOLS_MAX][32];
};

static void system_add_capability(struct driver_message *m, const char *name) {
    m->capabilities[m->info.n_capabilities++] = (char *)name;
}

static void system_add_tools(struct driver_message *m) {
    for (size_t i = 0; tool_at(i); i++)
        if (tool_is_on_host(tool_at(i))) {
            snprintf(m->tools[i], sizeof m->tools[i], "tool.%s", tool_at(i)->name);
            system_add_capability(m, m->tools[i]);
        }
}

static void system_fill_driver(struct driver_message *m, const struct registry *r,
                               const struct driver *d) {
    bool has_mounts = (d->features & DRIVER_HAS_MOUNTS) != 0;
    berm__v1__driver_info__init(&m->info);
    m->info.name = (char *)d->ops->name;
    m->info.available = true;
    m->info.capabilities = m->capabilities;
    for (size_t i = 0; i < COUNT_OF(features); i++)
        if ((d->features & features[i].feature) == features[i].feature)
            system_add_capability(m, features[i].name);
    if (d->pause)
        system_add_capability(m, "sandbox.pause");
    if (has_mounts)
        system_add_tools(m);
    if (registry_has_opener(r) && has_mounts)
        system_add_capability(m, "mounts");
    if (registry_has_opener(r))
        system_add_capability(m, "copies");
}

/* Lists the native driver with the reason why no driver is loaded. */
static void system_fill_no_driver(struct driver_message *m, const struct registry *r) {
    berm__v1__driver_info__init(&m->info);
    m->info.name = "native";
    m->info.unavailable_reason = (char *)registry_no_driver(r);
}

struct driver_list {
    struct driver_message messages[ENV_DRIVERS_MAX];
    Berm__V1__DriverInfo *list[ENV_DRIVERS_MAX];
};

static void system_fill_sandboxes(struct registry *r, struct driver_list *drivers,
                                  Berm__V1__GetInfoResponse *response) {
    size_t n = 0;
    for (const struct driver *d; (d = registry_driver_at(r, n)); n++)
        system_fill_driver(&drivers->messages[n], r, d);
    if (n == 0)
        system_fill_no_driver(&drivers->messages[n++], r);
    for (size_t i = 0; i < n; i++)
        drivers->list[i] = &drivers->messages[i].info;
    response->n_drivers = n;
    response->drivers = drivers->list;
    response->head_sequence = ledger_head(registry_ledger(r));
    response->oldest_sequence = ledger_oldest(registry_ledger(r));
}

static void system_on_get_info(struct call *c, const ProtobufCMessage *m) {
    (void)m;
    const struct system_facts *facts = &context_of(c)->facts;
    struct driver_list drivers = {0};
    struct caller caller;
    Berm__V1__GetInfoResponse response = BERM__V1__GET_INFO_RESPONSE__INIT;
    struct err e;
    context_caller(c, &caller);
    response.limits = system_limit_messages(c, facts->limits);
    if (!response.limits) {
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
        call_finish(c, &e);
        return;
    }
    response.n_limits = LIMIT_COUNT;
    response.version = (char *)facts->version;
    response.spec_version = SPEC_VERSION;
    response.protocol = "berm.v1";
    response.instance_id = (char *)facts->instance_id;
    response.run_id = (char *)facts->run_id;
    response.state = c->api->draining ? BERM__V1__DAEMON_STATE__DAEMON_STATE_DRAINING
                                      : BERM__V1__DAEMON_STATE__DAEMON_STATE_SERVING;
    response.server_unix_ms = clock_unix_ms();
    response.started_unix_ms = facts->started_unix_ms;
    response.uptime_ms = (int64_t)((clock_us() - facts->started_us) / 1000);
    response.identity = caller.identity;
    response.admin = caller.is_admin;
    if (context_registry(c))
        system_fill_sandboxes(context_registry(c), &drivers, &response);
    call_reply(c, &response.base);
}

const struct handler api_system_get_info = {.on_message = system_on_get_info};
