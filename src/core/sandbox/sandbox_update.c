/* sandbox_update — replaces the spec. The driver applies new limits before the commit, so that an
 * update which was reported is in force. */
#include <stdio.h>

#include "base/failpoint.h"
#include "core/sandbox/sandbox_impl.h"

/* An update that waits for the driver; it owns copies of what the caller passed. */
struct update {
    struct list waits; /* the node of the waiting caller; empty when the caller is gone */
    Berm__V1__SandboxSpec *spec;
    struct caller who;
    struct request_key key;
    char request_id[132];
    char method[96];
    const char *parts[8];
    size_t n_parts;
};

static void update_free(struct update *u) {
    if (u && u->spec)
        berm__v1__sandbox_spec__free_unpacked(u->spec, NULL);
    free(u);
}

static Berm__V1__SandboxSpec *update_copy_spec(const Berm__V1__SandboxSpec *spec) {
    size_t n = berm__v1__sandbox_spec__get_packed_size(spec);
    AUTO_FREE uint8_t *packed = malloc(n ? n : 1);
    if (!packed)
        return NULL;
    berm__v1__sandbox_spec__pack(spec, packed);
    return berm__v1__sandbox_spec__unpack(NULL, n, packed);
}

static void update_put_event(struct sandbox *sb, struct entry *t, struct update *u) {
    Berm__V1__Event event;
    Berm__V1__Actor actor;
    Berm__V1__SandboxUpdateEvent update = BERM__V1__SANDBOX_UPDATE_EVENT__INIT;
    const Berm__V1__SandboxSpec *spec = sb->box.record->spec;
    box_event_init(&sb->box, &event, &actor, &u->who, false, u->request_id);
    update.n_parts = u->n_parts;
    update.parts = (char **)u->parts;
    update.n_labels = spec->n_labels;
    update.labels = spec->labels;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_SANDBOX_UPDATE;
    event.body_case = BERM__V1__EVENT__BODY_SANDBOX_UPDATE;
    event.sandbox_update = &update;
    sb->box.record->changed_sequence = entry_event(t, &event, spec->n_labels, spec->labels);
}

static struct ledger_wait *update_take_wait(struct update *u) {
    struct list *node = list_pop_front(&u->waits);
    return node ? container_of(node, struct ledger_wait, in_ledger) : NULL;
}

static void update_fail(struct update *u, const struct err *e) {
    struct ledger_wait *w = update_take_wait(u);
    if (w)
        w->on_done(w, e);
    update_free(u);
}

/* Puts the new spec into the record and commits it. On failure, the update stays unchanged. */
static int update_record(struct sandbox *sb, struct update *u, struct err *e) {
    struct entry *t = ledger_begin(sb->box.env->ledger);
    if (!t)
        return change_refused(e);
    berm__v1__sandbox_spec__free_unpacked(sb->box.record->spec, NULL);
    sb->box.record->spec = TAKE(u->spec);
    for (size_t i = 0; i < u->n_parts; i++)
        if (strcmp(u->parts[i], "lifetime") == 0)
            sandbox_lifetime_begin(sb);
    update_put_event(sb, t, u);
    sandbox_put(sb, t);
    entry_put_request(t, &u->key, sb->box.record->sandbox_id, (struct str){0});
    failpoint(FAIL_UPDATE_INTENT);
    sb->updates.is_committing = true;
    ledger_commit(t, update_take_wait(u));
    update_free(u);
    return 0;
}

static void on_limits(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    struct update *u = TAKE(sb->updates.pending);
    if (!u)
        return;
    struct err e;
    if (a->e)
        update_fail(u, a->e);
    else if (update_record(sb, u, &e) < 0)
        update_fail(u, &e);
}

void sandbox_update_without_instance(struct sandbox *sb) {
    struct err e;
    struct update *u = TAKE(sb->updates.pending);
    if (u && update_record(sb, u, &e) < 0) /* the new limits take effect at the next start */
        update_fail(u, &e);
}

void sandbox_update_drop(struct sandbox *sb) {
    struct err e;
    if (!sb->updates.pending)
        return;
    err_set(&e, ERR_SANDBOX_DELETED, "the sandbox is gone");
    update_fail(TAKE(sb->updates.pending), &e);
}

static struct update *update_new(const Berm__V1__SandboxSpec *spec, const char *const *parts,
                                 size_t n_parts, const struct change *c) {
    struct update *u = calloc(1, sizeof *u);
    if (!u || !(u->spec = update_copy_spec(spec))) {
        free(u);
        return NULL;
    }
    list_init(&u->waits);
    u->who = *c->who;
    if (c->key) {
        u->key = *c->key;
        snprintf(u->request_id, sizeof u->request_id, "%s", c->key->request_id);
        snprintf(u->method, sizeof u->method, "%s", c->key->method);
    }
    u->key.identity = u->who.identity;
    u->key.request_id = u->request_id;
    u->key.method = u->method;
    for (; u->n_parts < n_parts && u->n_parts < COUNT_OF(u->parts); u->n_parts++)
        u->parts[u->n_parts] = parts[u->n_parts]; /* no copy: the strings are static */
    return u;
}

static bool update_changes_limits(const Berm__V1__Limits *a, const Berm__V1__Limits *b) {
    return a && b &&
           (a->memory_bytes != b->memory_bytes || a->cpu_millis != b->cpu_millis ||
            a->pids != b->pids);
}

int sandbox_update(struct sandbox *sb, uint64_t incarnation, const Berm__V1__SandboxSpec *spec,
                   const char *const *parts, size_t n_parts, const struct change *c,
                   struct err *e) {
    if (sandbox_check_change(sb, incarnation, e) < 0)
        return -(int)e->code;
    if (sb->updates.pending)
        return err_set(e, ERR_LIMIT_REACHED, "another update of %s is being put in force",
                       sb->box.record->sandbox_id);
    bool is_live =
        box_is_up(&sb->box) && update_changes_limits(sb->box.record->spec->limits, spec->limits);
    if (is_live && !sb->box.driver->limits)
        return err_set(e, ERR_UNSUPPORTED,
                       "the driver %s cannot change limits of a running sandbox",
                       sb->box.driver->ops->name);
    struct update *u = update_new(spec, parts, n_parts, c);
    if (!u)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    if (c->wait) {
        list_remove(&c->wait->in_ledger);
        list_push_back(&u->waits, &c->wait->in_ledger);
    }
    if (!is_live) {
        int r = update_record(sb, u, e);
        if (r < 0) {
            (void)update_take_wait(u);
            update_free(u);
        }
        return r;
    }
    struct instance_limits limits;
    sandbox_limits(spec, &limits);
    sb->updates.pending = u;
    instance_set_limits(sb->box.instance, &limits, on_limits, NULL);
    return 0;
}
