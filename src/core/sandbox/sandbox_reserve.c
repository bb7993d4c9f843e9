/* sandbox_reserve — what the disk reserve (*disk.reserve*) means for one sandbox: whether it may
 * start or continue, and whether the reserve holds it. core/registry/reserve.c watches the disk. */
#include "base/disk_space.h"
#include "core/sandbox/sandbox_impl.h"

static uint64_t sandbox_reserve_bytes(const struct env *env) {
    return (uint64_t)env->limits->of[LIMIT_DISK_RESERVE];
}

void sandbox_reserve_read(const struct env *env, struct disk_space *ret_space) {
    if (disk_space_read(env->state_dir_fd, sandbox_reserve_bytes(env), ret_space) < 0)
        *ret_space = (struct disk_space){.bytes = UINT64_MAX, .files = UINT64_MAX};
}

static bool spec_is_on_disk(const Berm__V1__SandboxSpec *spec) {
    return !spec->root || spec->root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY;
}

static bool sandbox_is_unlimited(const struct sandbox *sb) {
    const Berm__V1__SandboxSpec *spec = sb->box.record->spec;
    return spec_is_on_disk(spec) && (!spec->limits || spec->limits->disk_bytes <= 0);
}

bool sandbox_may_fill_disk(const struct sandbox *sb) {
    return sb->box.driver && sb->box.driver->pause && box_is(&sb->box, SB_READY) &&
           sb->box.goal == GOAL_RUN && sandbox_is_unlimited(sb);
}

bool sandbox_is_held(const struct sandbox *sb) {
    const Berm__V1__StateReason *why = sb->box.record->reason;
    return sb->box.goal == GOAL_PAUSE && why &&
           why->cause == BERM__V1__STATE_CAUSE__STATE_CAUSE_ERROR &&
           strcmp(why->code, err_face(ERR_STORE_FULL)->name) == 0;
}

void sandbox_reserve_explain(const struct env *env, struct err *ret_e) {
    err_set(ret_e, ERR_STORE_FULL,
            "the state's disk has less than its reserve left: %llu MiB, or that share of its files",
            (unsigned long long)(sandbox_reserve_bytes(env) >> 20));
}

int sandbox_reserve_check_new(const struct env *env, const Berm__V1__SandboxSpec *spec,
                              struct err *e) {
    struct disk_space space;
    sandbox_reserve_read(env, &space);
    if (!spec_is_on_disk(spec) || !disk_space_is_short(&space))
        return 0;
    sandbox_reserve_explain(env, e);
    return -(int)e->code;
}

int sandbox_reserve_check(const struct sandbox *sb, struct err *e) {
    if (!sandbox_is_unlimited(sb) ||
        sandbox_reserve_check_new(sb->box.env, sb->box.record->spec, e) == 0)
        return 0;
    return err_about(e, "sandbox_id", sb->box.record->sandbox_id);
}
