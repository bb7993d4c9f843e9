#include "core/registry/pool.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "core/guest/guest_link.h"
#include "core/imports/imports.h"

#define REST_US UINT64_C(2000)
#define FAILED_US UINT64_C(100000)
#define SHORT_US UINT64_C(1000000)
#define FAILED_MAX_US UINT64_C(60000000)
#define CONNECT_TURNS 20000
#define CONNECT_US 500
#define LEASE_MS 10000 /* without bermd, a parked guest ends after this time */

struct pool {
    struct env *env;
    struct driver *driver; /* the first driver that has parking */
    struct list ready;     /* parked instances, oldest first */
    struct entrant *next;  /* the instance being created; NULL: none */
    unsigned n_ready;
    uint64_t pause_us; /* delay before the next create */
    struct deadline again;
};

/* An instance that is being created for the pool, is in the pool, or is being discarded. */
struct entrant {
    struct list in_pool;
    struct pool *pool; /* NULL: the instance is being discarded */
    struct env *env;
    struct driver *driver;
    struct parked parked;
    char id[INSTANCE_ID_MAX];
    unsigned n_tries; /* number of attempts to connect */
    struct deadline again;
};

/* --- the kind of instance --- */

static uint64_t pool_limit(const struct pool *p, enum limit_id limit, unsigned feature) {
    int64_t value = p->env->limits->of[limit];
    bool holds = (p->driver->features & feature) != 0;
    return holds && value > 0 ? (uint64_t)value : 0;
}

/* Returns the limits for a spec without limits. */
static struct instance_limits pool_limits(const struct pool *p) {
    struct instance_limits l;
    sandbox_limits(&(Berm__V1__SandboxSpec){0}, &l);
    l.memory_bytes = pool_limit(p, LIMIT_SANDBOX_MEMORY, DRIVER_HAS_LIMIT_MEMORY);
    l.cpu_milli = pool_limit(p, LIMIT_SANDBOX_CPU, DRIVER_HAS_LIMIT_CPU);
    l.pids = pool_limit(p, LIMIT_SANDBOX_PIDS, DRIVER_HAS_LIMIT_PIDS);
    l.disk_bytes = pool_limit(p, LIMIT_SANDBOX_DISK, DRIVER_HAS_LIMIT_DISK);
    l.disk_inodes = pool_limit(p, LIMIT_SANDBOX_INODES, DRIVER_HAS_LIMIT_DISK);
    return l;
}

/* Returns whether a claim can set the limits of the spec. A claim can change a limit, but neither
 * add nor remove one. It cannot change the disk limit, which is part of the layer. */
static bool pool_limits_fit(const struct pool *p, const Berm__V1__SandboxSpec *spec) {
    struct instance_limits own = pool_limits(p), l;
    sandbox_limits(spec, &l);
    return !l.memory_bytes == !own.memory_bytes && !l.cpu_milli == !own.cpu_milli &&
           !l.pids == !own.pids && l.disk_bytes == own.disk_bytes &&
           l.disk_inodes == own.disk_inodes;
}

/* Returns whether a claim can add the mounts of the spec. A claim can only add read-only mounts: a
 * writable mount needs a filter that is installed when the instance is created, and a cache needs
 * the layer. */
static bool pool_mounts_fit(const Berm__V1__SandboxSpec *spec) {
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (spec->mounts[i]->writable)
            return false;
    for (size_t i = 0; i < spec->n_tools; i++)
        if (spec->tools[i]->cache)
            return false;
    return imports_mounts_max(spec) <= INSTANCE_CLAIM_MOUNTS_MAX;
}

static bool pool_fits(const struct pool *p, const Berm__V1__SandboxSpec *spec) {
    const Berm__V1__RootFilesystem *root = spec->root;
    bool is_usual =
        spec->profile != BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT &&
        (!root || (root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY &&
                   (root->source_case == BERM__V1__ROOT_FILESYSTEM__SOURCE__NOT_SET ||
                    root->source_case == BERM__V1__ROOT_FILESYSTEM__SOURCE_HOST))) &&
        (!spec->network || spec->network->mode <= BERM__V1__NETWORK_MODE__NETWORK_MODE_NONE);
    return is_usual && strcmp(spec->driver, p->driver->ops->name) == 0 && pool_mounts_fit(spec) &&
           pool_limits_fit(p, spec);
}

/* --- leaving the pool --- */

static void on_discarded(void *user, const struct err *e) {
    struct entrant *it = user;
    struct env *env = it->env;
    if (e)
        log_text(LOG_WARN, "pool", "%s", e->text);
    driver_give_slot_back(it->driver, it->parked.slot);
    free(it);
    (void)env_job_end(env);
}

static void pool_rest(struct pool *p, uint64_t us) {
    if (!p->again.is_set)
        deadline_set(p->env->deadlines, &p->again, clock_us() + us);
}

static void pool_leave(struct entrant *it) {
    struct pool *p = it->pool;
    if (p->next == it)
        p->next = NULL;
    else
        p->n_ready--;
    list_remove(&it->in_pool);
    deadline_clear(p->env->deadlines, &it->again);
    it->pool = NULL;
}

/* Ends the instance. Returns its slot to the driver when the driver has removed everything. */
static void pool_clear(struct entrant *it) {
    if (it->parked.link)
        guest_link_close(TAKE(it->parked.link));
    if (it->parked.transcript)
        transcript_close(TAKE(it->parked.transcript));
    if (it->parked.instance)
        instance_close(TAKE(it->parked.instance));
    env_job_begin(it->env);
    driver_discard(it->driver, it->id, true, on_discarded, it);
}

static void pool_fail(struct entrant *it, const struct err *e) {
    struct pool *p = it->pool;
    log_text(LOG_WARN, "pool", "%s: %s", it->id, e->text);
    pool_leave(it);
    pool_clear(it);
    p->pause_us = MIN(MAX(p->pause_us * 2, FAILED_US), FAILED_MAX_US);
    pool_rest(p, p->pause_us);
}

/* --- entering the pool --- */

static void on_exec(struct guest_link *l, const struct guest_exec_state *state) {
    (void)l, (void)state; /* a parked guest has run no exec */
}

static void on_link_ready(struct guest_link *l) {
    struct entrant *it = guest_link_user(l);
    struct pool *p = it->pool;
    p->next = NULL;
    p->n_ready++;
    list_push_back(&p->ready, &it->in_pool);
    log_text(LOG_DEBUG, "parked", "%s", it->id);
    p->pause_us = REST_US; /* a create succeeded, so end the backoff */
    pool_rest(p, p->pause_us);
}

static void on_notice(struct guest_link *l, const struct guest_notice *n) {
    (void)l, (void)n;
}

static void on_lost(struct guest_link *l, const struct err *e) {
    pool_fail(guest_link_user(l), e);
}

static const struct guest_events guest_events = {on_exec, on_link_ready, on_notice, on_lost};

static void pool_connect(struct entrant *it) {
    struct err e;
    struct env *env = it->env;
    int fd = instance_connect(it->parked.instance, &e);
    if (fd < 0 && ++it->n_tries < CONNECT_TURNS) { /* the guest does not listen yet */
        deadline_set(env->deadlines, &it->again, clock_us() + CONNECT_US);
        return;
    }
    if (fd >= 0)
        it->parked.link = guest_link_open(&(struct guest_link_spec){
            .loop = env->loop,
            .deadlines = env->deadlines,
            .fd = fd,
            .is_bytes_only = it->parked.instance->is_bytes_only,
            .transcript = it->parked.transcript,
            .run_id = env->run_id,
            .lease_ms = LEASE_MS,
            .events = &guest_events,
            .user = it,
        });
    if (fd >= 0 && !it->parked.link)
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    if (!it->parked.link)
        pool_fail(it, &e);
}

static void on_connect_again(struct deadline *d) {
    pool_connect(container_of(d, struct entrant, again));
}

static void on_ready(struct instance *instance) {
    pool_connect(instance->user);
}

static void on_failed(struct instance *instance, const struct err *e) {
    struct entrant *it = instance->user;
    it->parked.instance = NULL;
    pool_fail(it, e);
}

static void on_gone(struct instance *instance) {
    struct err e;
    err_set(&e, ERR_GUEST_LOST, "the guest has ended");
    on_failed(instance, &e);
}

static const struct instance_events instance_events = {on_ready, on_failed, on_gone};

/* Creates a parked instance. Its id ends with a hyphen, which no sandbox id does. Its host name
 * becomes the sandbox id unless the caller chooses one. */
static bool pool_create(struct entrant *it, struct err *e) {
    struct env *env = it->env;
    struct instance_spec spec = {
        .id = it->id,
        .hostname = it->parked.name,
        .slot = it->parked.slot,
        .profile = INSTANCE_USER,
        .layer = INSTANCE_DISK,
        .network = INSTANCE_NETWORK_NONE,
        .limits = pool_limits(it->pool),
        .is_parked = true,
    };
    env_make_id(SANDBOX_ID_PREFIX, it->parked.name);
    snprintf(it->id, sizeof it->id, "p-%s-", it->parked.name + strlen(SANDBOX_ID_PREFIX));
    it->parked.transcript = transcript_open(-1, "guest.log", env->limits->of[LIMIT_GUEST_LOG]);
    it->parked.limits = spec.limits;
    it->parked.instance = instance_create(it->driver, &spec, &instance_events, it, e);
    return it->parked.instance != NULL;
}

static void pool_create_next(struct pool *p) {
    struct err e = {.text = "out of memory"};
    struct entrant *it = calloc(1, sizeof *it);
    int64_t slot = it ? driver_take_slot(p->driver) : -1;
    if (slot >= 0) {
        *it = (struct entrant){
            .pool = p, .env = p->env, .driver = p->driver, .parked.slot = (uint64_t)slot};
        list_init(&it->in_pool);
        deadline_init(&it->again, on_connect_again);
        if (pool_create(it, &e)) {
            p->next = it;
            return;
        }
        driver_give_slot_back(p->driver, it->parked.slot);
        if (it->parked.transcript)
            transcript_close(it->parked.transcript);
    }
    free(it);
    log_text(LOG_WARN, "pool", "%s", e.text);
    p->pause_us = MIN(MAX(p->pause_us * 2, FAILED_US), FAILED_MAX_US);
    pool_rest(p, p->pause_us);
}

static void on_again(struct deadline *d) {
    struct pool *p = container_of(d, struct pool, again);
    const struct env *env = p->env;
    if (p->next || p->n_ready >= (unsigned)env->limits->of[LIMIT_SANDBOXES_PARKED])
        return;
    if (!fd_are_available(env->state_dir_fd, 2 * SANDBOX_FDS))
        pool_rest(p, SHORT_US); /* leave the descriptors to sandboxes that callers request */
    else if (p->driver->parking->is_idle(p->driver))
        pool_create_next(p);
    else
        pool_rest(p, REST_US);
}

/* --- interface --- */

struct pool *pool_new(struct env *env) {
    struct driver *d;
    for (size_t i = 0; (d = env_driver_at(env, i)) && !d->parking;)
        i++;
    bool is_wanted = d && env->limits->of[LIMIT_SANDBOXES_PARKED] > 0;
    struct pool *p = is_wanted ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    p->env = env;
    p->driver = d;
    p->pause_us = REST_US;
    list_init(&p->ready);
    deadline_init(&p->again, on_again);
    return p;
}

void pool_begin(struct pool *p) {
    if (p)
        pool_rest(p, REST_US);
}

void pool_close(struct pool *p) {
    if (!p)
        return;
    if (p->next)
        list_push_back(&p->ready, &p->next->in_pool);
    while (!list_is_empty(&p->ready)) {
        struct entrant *it = container_of(p->ready.next, struct entrant, in_pool);
        pool_leave(it);
        pool_clear(it);
    }
    deadline_clear(p->env->deadlines, &p->again);
    free(p);
}

bool pool_take(struct pool *p, const Berm__V1__SandboxSpec *spec, struct parked *ret_parked) {
    if (!p || list_is_empty(&p->ready) || !pool_fits(p, spec))
        return false;
    struct entrant *it = container_of(p->ready.next, struct entrant, in_pool);
    pool_leave(it);
    *ret_parked = it->parked;
    free(it);
    p->pause_us = REST_US;
    pool_rest(p, REST_US);
    return true;
}

void pool_discard(struct pool *p, const struct parked *parked) {
    struct entrant *it = calloc(1, sizeof *it);
    if (!it) { /* out of memory: the next start sweeps the instance */
        instance_close(parked->instance);
        return;
    }
    *it = (struct entrant){.env = p->env, .driver = p->driver, .parked = *parked};
    snprintf(it->id, sizeof it->id, "%s", parked->instance->id);
    pool_clear(it);
}
