/* sandbox_instance — the instance of a sandbox: created, claimed from the pool, or adopted. */
#include <stdio.h>

#include "base/log.h"
#include "core/sandbox/sandbox_impl.h"

#define FILE_MAX_BYTES \
    (UINT64_C(1) << 40) /* offsets of a log only grow, even though its front is dropped */

static void on_ready(struct instance *p) {
    struct sandbox *sb = sandbox_of(p->user);
    sandbox_failpoint(sb, OP_ACK);
    box_set_instance(&sb->box, INST_UP);
    sandbox_converge(sb);
}

static void on_failed(struct instance *p, const struct err *e) {
    struct sandbox *sb = sandbox_of(p->user);
    sb->box.instance = NULL;
    box_set_instance(&sb->box, INST_NONE);
    sb->failure = *e;
    sandbox_converge(sb);
}

/* Called when the instance has ended. Execs without a reported exit get their exit from status
 * files. */
static void on_gone(struct instance *p) {
    struct sandbox *sb = sandbox_of(p->user);
    sb->box.instance = NULL;
    box_set_instance(&sb->box, INST_NONE);
    sb->shutdown_goal = GOAL_NONE;
    sb->copies.are_done = false; /* because a layer in memory is gone */
    /* The imports were opened for this instance; cancel pending requests. */
    imports_end(&sb->imports);
    deadline_clear(sb->box.env->deadlines, &sb->guest_deadline);
    if (box_is(&sb->box, SB_PENDING) && sb->failure.code == ERR_NONE)
        err_set(&sb->failure, ERR_GUEST_LOST, "the guest ended before it was ready");
    sandbox_forget_guest(sb);
    sandbox_failpoint(sb, OP_ACK);
    sandbox_update_without_instance(sb);
    sandbox_measures_end(sb);
    execs_gone(&sb->execs);
    sandbox_converge(sb);
}

static const struct instance_events instance_events = {on_ready, on_failed, on_gone};

static uint64_t limit_or_none(int64_t limit) {
    return limit > 0 ? (uint64_t)limit : 0;
}

void sandbox_limits(const Berm__V1__SandboxSpec *spec, struct instance_limits *ret_limits) {
    const Berm__V1__Limits *l = spec->limits;
    *ret_limits = (struct instance_limits){.file_bytes = FILE_MAX_BYTES};
    if (!l)
        return;
    ret_limits->memory_bytes = limit_or_none(l->memory_bytes);
    ret_limits->cpu_milli = limit_or_none(l->cpu_millis);
    ret_limits->pids = limit_or_none(l->pids);
    ret_limits->disk_bytes = limit_or_none(l->disk_bytes);
    ret_limits->disk_inodes = limit_or_none(l->disk_inodes);
}

/* --- creating --- */

/* Returns the spec of the instance. The imports own the descriptors and targets of its mounts. */
static struct instance_spec sandbox_instance_spec(
    const struct sandbox *sb, struct instance_mount mounts[INSTANCE_MOUNTS_MAX]) {
    const Berm__V1__SandboxSpec *spec = sb->box.record->spec;
    struct instance_spec instance = {
        .id = sb->instance_id,
        .hostname = sb->box.record->sandbox_id,
        .slot = sb->slot,
        .profile = spec->profile == BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT ? INSTANCE_ROOT
                                                                                    : INSTANCE_USER,
        .layer = spec->root && spec->root->layer == BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY
                     ? INSTANCE_MEMORY
                     : INSTANCE_DISK,
        .network = INSTANCE_NETWORK_NONE,
        .mounts = mounts,
    };
    instance.n_mounts = imports_mounts(&sb->imports, mounts);
    sandbox_limits(spec, &instance.limits);
    return instance;
}

static void sandbox_instance_create(struct sandbox *sb, const struct instance_spec *spec) {
    sb->box.instance =
        instance_create(sb->box.driver, spec, &instance_events, &sb->box, &sb->failure);
    if (sb->box.instance)
        box_set_instance(&sb->box, INST_CREATING);
}

/* --- claiming --- */

static void on_claimed(struct instance *p, const struct instance_answer *a, void *user) {
    (void)user;
    struct sandbox *sb = sandbox_of(p->user);
    sandbox_failpoint(sb, OP_ACK);
    box_set_instance(&sb->box, INST_UP);
    if (a->e)
        sb->failure = *a->e;
    else
        sandbox_configure(sb);
    sandbox_converge(sb);
}

/* Sets limits that equal those of the parked instance to 0, which means unchanged. */
static void sandbox_claim_limits(struct instance_limits *limits,
                                 const struct instance_limits *own) {
    limits->memory_bytes = limits->memory_bytes == own->memory_bytes ? 0 : limits->memory_bytes;
    limits->cpu_milli = limits->cpu_milli == own->cpu_milli ? 0 : limits->cpu_milli;
    limits->pids = limits->pids == own->pids ? 0 : limits->pids;
}

/* Returns whether the claim needs no request to the driver, because the parked instance matches the
 * spec. */
static bool sandbox_claim_is_bare(const struct instance_spec *spec) {
    const struct instance_limits *l = &spec->limits;
    return !spec->hostname && l->memory_bytes == 0 && l->cpu_milli == 0 && l->pids == 0 &&
           spec->n_mounts == 0;
}

/* Claims the parked instance. Configures the guest first so that it overlaps with the claim, unless
 * the guest would create a workspace where a mount goes: only the default workspace exists in every
 * root. */
static void sandbox_instance_claim(struct sandbox *sb, struct instance_spec *spec) {
    const char *workspace = sb->box.record->spec->workspace;
    spec->hostname = sb->claim.has_name ? NULL : spec->hostname;
    sandbox_claim_limits(&spec->limits, &sb->claim.limits);
    bool is_bare = sandbox_claim_is_bare(spec);
    box_set_instance(&sb->box, is_bare ? INST_UP : INST_CLAIMING);
    if (spec->n_mounts == 0 || strcmp(workspace, PARKED_WORKSPACE) == 0)
        sandbox_configure(sb);
    if (!is_bare)
        instance_claim(sb->box.instance, spec, on_claimed, NULL);
}

void sandbox_claim(struct sandbox *sb, struct parked *p) {
    sb->box.instance = TAKE(p->instance);
    sb->box.instance->events = &instance_events;
    sb->box.instance->user = &sb->box;
    box_set_instance(&sb->box, INST_PARKED);
    sb->claim.is_active = true;
    sb->claim.limits = p->limits;
    sb->claim.has_name = strcmp(p->name, sb->box.record->sandbox_id) == 0;
    sb->request.op = OP_CLAIM;
    sandbox_take_link(sb, p->link, p->transcript);
}

/* --- creating or claiming --- */

static void sandbox_instance_begin(struct sandbox *sb) {
    struct instance_mount mounts[INSTANCE_MOUNTS_MAX];
    struct instance_spec spec = sandbox_instance_spec(sb, mounts);
    free(sb->tool_path);
    sb->tool_path = imports_path(&sb->imports);
    if (sb->box.instance_state == INST_PARKED)
        sandbox_instance_claim(sb, &spec);
    else
        sandbox_instance_create(sb, &spec);
    imports_end(&sb->imports);
    if (sb->box.instance_state == INST_CREATING || sb->box.instance_state == INST_CLAIMING ||
        sb->box.link_state == LINK_CONFIGURING)
        sandbox_failpoint(sb, OP_SEND);
    else
        sandbox_converge(sb);
}

static void on_opened(struct imports *in, const struct err *e) {
    struct sandbox *sb = container_of(in, struct sandbox, imports);
    box_set_instance(&sb->box, sb->box.instance ? INST_PARKED : INST_NONE);
    if (!e && sb->box.goal <= GOAL_PAUSE) {
        sandbox_instance_begin(sb);
        return;
    }
    if (e)
        sb->failure = *e;
    imports_end(&sb->imports);
    sandbox_converge(sb);
}

void sandbox_make_instance(struct sandbox *sb) {
    sandbox_failpoint(sb, OP_COMMIT);
    int r = imports_begin(&sb->imports, sb->box.env, sb->box.record->owner, sb->box.record->spec,
                          false, on_opened, &sb->failure);
    if (r == 1)
        box_set_instance(&sb->box, INST_OPENING);
    else if (r == 0)
        sandbox_instance_begin(sb);
    else
        sandbox_converge(sb);
}

/* --- clearing and adopting --- */

/* Called when the driver has removed what was left of the instance. */
static void on_cleared(void *user, const struct err *e) {
    struct sandbox *sb = user;
    if (env_job_end(sb->box.env))
        return;
    if (e)
        log_text(LOG_WARN, "clear", "%s: %s", sb->box.record->sandbox_id, e->text);
    box_set_instance(&sb->box, INST_NONE);
    execs_gone(&sb->execs);
    sandbox_converge(sb);
}

static void sandbox_instance_clear(struct sandbox *sb, bool with_files) {
    box_set_instance(&sb->box, INST_CLEARING);
    env_job_begin(sb->box.env);
    driver_discard(sb->box.driver, sb->instance_id, with_files, on_cleared, sb);
}

void sandbox_unclaim(struct sandbox *sb) {
    if (sb->failure.code != ERR_NONE)
        log_text(LOG_INFO, "unclaim", "%s: %s", sb->box.record->sandbox_id, sb->failure.text);
    sb->failure = (struct err){0};
    sb->claim.is_active = false;
    deadline_clear(sb->box.env->deadlines, &sb->guest_deadline);
    sandbox_forget_guest(sb);
    imports_end(&sb->imports);
    copies_forget(&sb->copies);
    if (sb->box.instance)
        instance_close(TAKE(sb->box.instance)); /* the driver answers no request for it any more */
    sandbox_update_without_instance(sb);
    sandbox_measures_end(sb);
    sandbox_instance_clear(sb, true);
}

/* Returns whether a restart interrupted the claim; how much of the claim was done is then
 * unknown. */
static bool sandbox_claim_is_half_done(const struct sandbox *sb) {
    return box_is(&sb->box, SB_PENDING) && sb->box.record->incarnation == 1 &&
           strcmp(sb->instance_id, sb->box.record->sandbox_id) != 0;
}

void sandbox_adopt(struct sandbox *sb) {
    struct err e;
    if (sandbox_claim_is_half_done(sb)) {
        sandbox_unclaim(sb);
        return;
    }
    /* The last daemon found the tools, but the guest does not have their PATH yet, so create the
     * instance again. */
    bool lacks_path = box_is(&sb->box, SB_PENDING) && sb->box.record->spec->n_tools > 0;
    if (!lacks_path)
        sb->box.instance =
            instance_adopt(sb->box.driver, sb->instance_id, &instance_events, &sb->box, &e);
    if (!sb->box.instance) {
        sandbox_instance_clear(sb, false);
        return;
    }
    box_set_instance(&sb->box, box_is(&sb->box, SB_PAUSED) ? INST_FROZEN : INST_UP);
    if (!box_is(&sb->box, SB_PENDING))
        box_set_link(&sb->box, LINK_LOST);
    if (sb->execs.n_running > 0) /* now, because the guest may report an exit at once */
        execs_learn_kills(&sb->execs);
    else
        list_push_back(&sb->all->dormant, &sb->in_dormant);
}
