/* sandbox_create — a sandbox is accepted: its id is free, there is room, and its intent goes to the store. */
#include "base/clock.h"
#include "base/fd.h"
#include "core/registry/pool.h"
#include "core/registry/reserve.h"
#include "core/sandbox/sandbox_impl.h"

static bool found(void *user, const struct db_sandbox *row) {
    (void)user;
    (void)row;
    return false;
}

static int check_id_free(struct registry *r, const char *id, struct err *e) {
    int taken = map_find(&r->sandboxes, id) != NULL;
    if (!taken)
        taken = db_find_sandbox(r->env.db, str_of(id), found, NULL, e);
    if (taken <= 0)
        return taken;
    err_set(e, ERR_SANDBOX_EXISTS, "the id %s is, or was, in use", id);
    return err_about(e, "sandbox_id", id);
}

/* A record of its own, with copies of everything. NULL: no memory. */
static Berm__V1__Sandbox *record_new(const char *id, const char *owner,
                                     const Berm__V1__SandboxSpec *spec) {
    Berm__V1__Sandbox model = BERM__V1__SANDBOX__INIT;
    model.sandbox_id = (char *)id;
    model.owner = (char *)owner;
    model.incarnation = 1;
    model.spec = (Berm__V1__SandboxSpec *)spec;
    model.created_unix_ms = model.last_activity_unix_ms = clock_unix_ms();
    size_t n = berm__v1__sandbox__get_packed_size(&model);
    AUTO_FREE uint8_t *packed = malloc(n);
    if (!packed)
        return NULL;
    berm__v1__sandbox__pack(&model, packed);
    return berm__v1__sandbox__unpack(NULL, n, packed);
}

int sandbox_check_new(const struct registry *r, const Berm__V1__SandboxSpec *spec, struct err *e) {
    if (!env_driver(&r->env, spec->driver))
        return r->env.n_drivers == 0 ? err_set(e, ERR_DRIVER_UNAVAILABLE, "%s", r->env.no_driver)
                                     : err_set(e, ERR_DRIVER_UNAVAILABLE,
                                               "the driver \"%s\" is not loaded", spec->driver);
    if (!fd_are_available(r->env.state_dir_fd, SANDBOX_FDS))
        return err_set(e, ERR_LIMIT_REACHED,
                       "the daemon may open too few files for one more sandbox (RLIMIT_NOFILE)");
    return reserve_check_new(r, spec, e);
}

static int check_capacity(const struct registry *r, const Berm__V1__SandboxSpec *spec,
                          struct err *e) {
    int64_t most = r->env.limits->of[LIMIT_SANDBOXES_MAX];
    if ((int64_t)r->sandboxes.count >= most)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_SANDBOXES_MAX, most,
                         "there are %lld sandboxes", (long long)most);
    return sandbox_check_new(r, spec, e);
}

/* With a parked instance, where one is of the kind that is asked for; without an id, under the name of that
 * instance, or a new one: either is random enough to be nobody's. NULL: no slot, or no memory. */
static struct sandbox *new_sandbox(struct registry *r, const char *id,
                                   const Berm__V1__SandboxSpec *spec, const struct change *c) {
    struct parked parked = {0};
    struct driver *d = env_driver(&r->env, spec->driver);
    bool is_claim = pool_take(r->pool, spec, &parked);
    if (!id[0] && !is_claim)
        env_make_id(SANDBOX_ID_PREFIX, parked.name);
    if (!id[0])
        id = parked.name;
    int64_t slot = is_claim ? (int64_t)parked.slot : driver_take_slot(d);
    Berm__V1__Sandbox *record = slot < 0 ? NULL : record_new(id, c->who->identity, spec);
    struct str instance = is_claim ? str_of(parked.instance->id) : (struct str){0};
    struct sandbox *sb =
        record ? sandbox_new(r, d, record, r->sandbox_number + 1, (uint64_t)slot, instance) : NULL;
    if (sb) {
        sb->request.op = OP_CREATE;
        sb->output_counted = true; /* there is none */
        if (is_claim)
            sandbox_claims(sb, &parked);
        return sb;
    }
    if (record)
        berm__v1__sandbox__free_unpacked(record, NULL);
    if (is_claim)
        pool_discard(r->pool, &parked);
    else if (slot >= 0)
        driver_give_slot_back(d, (uint64_t)slot);
    return NULL;
}

int sandbox_create(struct registry *r, const char *id, const Berm__V1__SandboxSpec *spec,
                   const struct change *c, struct sandbox **ret_sb, struct err *e) {
    int failed = id[0] ? check_id_free(r, id, e) : 0;
    if (failed == 0)
        failed = check_capacity(r, spec, e);
    if (failed < 0)
        return failed;
    struct sandbox *sb = new_sandbox(r, id, spec, c);
    struct entry *t = sb ? ledger_begin(r->env.ledger) : NULL;
    if (!t) {
        if (sb)
            sandbox_free(sb);
        return change_refused(e);
    }
    r->sandbox_number++;
    sandbox_set_goal(sb, GOAL_RUN);
    sandbox_lifetime_begins(sb);
    sandbox_enter(sb, t, SB_PENDING,
                  &(struct sandbox_why){.cause = BERM__V1__STATE_CAUSE__STATE_CAUSE_REQUESTED,
                                        .who = c->who,
                                        .request_id = c->key ? c->key->request_id : NULL});
    entry_put_request(t, c->key, sb->record->sandbox_id, (struct str){0});
    sandbox_failpoint(sb, OP_INTENT);
    ledger_commit(t, c->wait);
    *ret_sb = sb;
    return 0;
}
