/* sandbox_create — accepts a sandbox: checks its id and the capacity, and commits the intent. */
#include "base/clock.h"
#include "base/fd.h"
#include "core/sandbox/sandbox_impl.h"

static bool on_found(void *user, const struct db_sandbox *row) {
    (void)user;
    (void)row;
    return false;
}

static int sandbox_create_check_id(struct sandboxes *all, const char *id, struct err *e) {
    int taken = map_find(&all->by_id, id) != NULL;
    if (!taken)
        taken = db_find_sandbox(all->env->db, str_of(id), on_found, NULL, e);
    if (taken <= 0)
        return taken;
    err_set(e, ERR_SANDBOX_EXISTS, "the id %s is, or was, in use", id);
    return err_about(e, "sandbox_id", id);
}

/* Creates a record that owns copies of all its values. Returns NULL if there is no memory. */
static Berm__V1__Sandbox *sandbox_create_record(const char *id, const char *owner,
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

int sandbox_check_new(const struct env *env, const Berm__V1__SandboxSpec *spec, struct err *e) {
    if (!env_driver(env, spec->driver))
        return env->n_drivers == 0 ? err_set(e, ERR_DRIVER_UNAVAILABLE, "%s", env->no_driver)
                                   : err_set(e, ERR_DRIVER_UNAVAILABLE,
                                             "the driver \"%s\" is not loaded", spec->driver);
    if (!fd_are_available(env->state_dir_fd, SANDBOX_FDS))
        return err_set(e, ERR_LIMIT_REACHED,
                       "the daemon may open too few files for one more sandbox (RLIMIT_NOFILE)");
    return sandbox_reserve_check_new(env, spec, e);
}

int sandbox_check_create(struct sandboxes *all, const char *id, const Berm__V1__SandboxSpec *spec,
                         struct err *e) {
    int64_t most = all->env->limits->of[LIMIT_SANDBOXES_MAX];
    int r = id[0] ? sandbox_create_check_id(all, id, e) : 0;
    if (r < 0)
        return r;
    if ((int64_t)all->by_id.count >= most)
        return err_limit(e, ERR_LIMIT_REACHED, LIMIT_SANDBOXES_MAX, most,
                         "there are %lld sandboxes", (long long)most);
    return sandbox_check_new(all->env, spec, e);
}

/* If the caller chose no id, the sandbox gets the host name of the parked instance or a new id;
 * both are random enough to be unique. NULL: no free slot, or out of memory. */
static struct sandbox *sandbox_create_object(struct sandboxes *all, const char *id,
                                             const Berm__V1__SandboxSpec *spec, struct parked *p,
                                             const struct change *c) {
    char made[INSTANCE_ID_MAX];
    struct driver *d = env_driver(all->env, spec->driver);
    if (!id[0] && !p)
        env_make_id(SANDBOX_ID_PREFIX, made);
    if (!id[0])
        id = p ? p->name : made;
    int64_t slot = p ? (int64_t)p->slot : driver_take_slot(d);
    Berm__V1__Sandbox *record = slot < 0 ? NULL : sandbox_create_record(id, c->who->identity, spec);
    struct str instance = p ? str_of(p->instance->id) : (struct str){0};
    struct sandbox *sb =
        record ? sandbox_new(all, d, record, all->newest + 1, (uint64_t)slot, instance) : NULL;
    if (sb) {
        sb->request.op = OP_CREATE;
        sb->execs.output_counted = true; /* a new sandbox has no output */
        if (p)
            sandbox_claim(sb, p);
        return sb;
    }
    if (record)
        berm__v1__sandbox__free_unpacked(record, NULL);
    if (!p && slot >= 0)
        driver_give_slot_back(d, (uint64_t)slot);
    return NULL;
}

int sandbox_create(struct sandboxes *all, const char *id, const Berm__V1__SandboxSpec *spec,
                   struct parked *p, const struct change *c, struct sandbox **ret_sb,
                   struct err *e) {
    struct sandbox *sb = sandbox_create_object(all, id, spec, p, c);
    struct entry *t = sb ? ledger_begin(all->env->ledger) : NULL;
    if (!t) {
        if (sb)
            sandbox_free(sb);
        return change_refused(e);
    }
    all->newest++;
    box_set_goal(&sb->box, GOAL_RUN);
    sandbox_lifetime_begin(sb);
    sandbox_enter(sb, t, SB_PENDING,
                  &(struct sandbox_why){.cause = BERM__V1__STATE_CAUSE__STATE_CAUSE_REQUESTED,
                                        .who = c->who,
                                        .request_id = c->key ? c->key->request_id : NULL});
    entry_put_request(t, c->key, sb->box.record->sandbox_id, (struct str){0});
    sandbox_failpoint(sb, OP_INTENT);
    ledger_commit(t, c->wait);
    *ret_sb = sb;
    return 0;
}
