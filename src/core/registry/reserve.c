#include "core/registry/reserve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/disk_space.h"
#include "core/sandbox/sandbox_impl.h"

/* Nobody fills a disk faster: the next look is when that much could have been written, or so many made. */
#define BYTES_PER_US 4096
#define FILES_PER_MS 256
#define SOONEST_US UINT64_C(50000)
#define LATEST_US UINT64_C(10000000)
#define SHORT_US UINT64_C(1000000) /* while some wait for space */

static uint64_t reserve_bytes(const struct registry *r) {
    return (uint64_t)r->env.limits->of[LIMIT_DISK_RESERVE];
}

/* A disk that does not tell counts as having space. */
static struct disk_space look(const struct registry *r) {
    struct disk_space space;
    if (disk_space_read(r->env.state_dir_fd, reserve_bytes(r), &space) < 0)
        space = (struct disk_space){.bytes = UINT64_MAX, .files = UINT64_MAX};
    return space;
}

static bool is_on_disk(const Berm__V1__SandboxSpec *spec) {
    return !spec->root || spec->root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY;
}

static bool is_unlimited(const struct sandbox *sb) {
    const Berm__V1__SandboxSpec *spec = sb->record->spec;
    return is_on_disk(spec) && (!spec->limits || spec->limits->disk_bytes <= 0);
}

static bool may_fill(const struct sandbox *sb) {
    return sb->driver && sb->driver->pause && sandbox_is(sb, SB_READY) && sb->goal == GOAL_RUN &&
           is_unlimited(sb);
}

bool reserve_holds(const struct sandbox *sb) {
    const Berm__V1__StateReason *why = sb->record->reason;
    return sb->goal == GOAL_PAUSE && why &&
           why->cause == BERM__V1__STATE_CAUSE__STATE_CAUSE_ERROR &&
           strcmp(why->code, err_face(ERR_STORE_FULL)->name) == 0;
}

void reserve_explain(const struct registry *r, struct err *ret_e) {
    err_set(ret_e, ERR_STORE_FULL,
            "the state's disk has less than its reserve left: %llu MiB, or that share of its files",
            (unsigned long long)(reserve_bytes(r) >> 20));
}

int reserve_check_new(const struct registry *r, const Berm__V1__SandboxSpec *spec, struct err *e) {
    struct disk_space space = look(r);
    if (!is_on_disk(spec) || !disk_space_is_short(&space))
        return 0;
    reserve_explain(r, e);
    return -(int)e->code;
}

int reserve_check(const struct sandbox *sb, struct err *e) {
    if (!is_unlimited(sb) || reserve_check_new(sb->registry, sb->record->spec, e) == 0)
        return 0;
    return err_about(e, "sandbox_id", sb->record->sandbox_id);
}

/* --- looking --- */

static void hold(struct sandbox *sb) {
    struct err why, e;
    reserve_explain(sb->registry, &why);
    struct change c = {.cause = BERM__V1__STATE_CAUSE__STATE_CAUSE_ERROR, .e = &why};
    if (sandbox_pause(sb, 0, &c, &e) < 0) /* the next look tries again */
        log_text(LOG_WARN, "reserve", "%s: %s", sb->record->sandbox_id, e.text);
}

static void let_go(struct sandbox *sb) {
    struct err e;
    if (sandbox_resume(sb, 0, &(struct change){0}, &e) < 0)
        log_text(LOG_WARN, "reserve", "%s: %s", sb->record->sandbox_id, e.text);
}

static uint64_t next_look(const struct disk_space *space, bool some_wait) {
    if (disk_space_is_short(space))
        return SHORT_US;
    uint64_t us = some_wait ? SHORT_US : LATEST_US;
    us = MIN(us, (space->bytes - space->bytes_kept) / BYTES_PER_US);
    us = MIN(us / 1000, (space->files - space->files_kept) / FILES_PER_MS) * 1000;
    return MAX(us, SOONEST_US);
}

static void on_look(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, reserve.look);
    struct disk_space space = look(r);
    bool is_short = disk_space_is_short(&space), is_ample = disk_space_is_ample(&space);
    bool some_wait = false, some_run = false;
    if (is_short && !r->reserve.is_short)
        log_text(LOG_WARN, "reserve",
                 "%llu MiB and %llu files are left on the disk: sandboxes are paused",
                 (unsigned long long)(space.bytes >> 20), (unsigned long long)space.files);
    r->reserve.is_short = is_short;
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        if (is_short && may_fill(sb))
            hold(sb);
        else if (is_ample && reserve_holds(sb))
            let_go(sb);
        some_wait |= reserve_holds(sb);
        some_run |= may_fill(sb);
    }
    if (some_wait || some_run)
        deadline_set(r->env.deadlines, d, clock_us() + next_look(&space, some_wait));
}

static bool is_wanted(const struct registry *r) {
    return reserve_bytes(r) > 0 && r->env.is_recovered && !r->env.is_closing;
}

void reserve_watch(struct sandbox *sb) {
    struct registry *r = sb->registry;
    bool is_looking = r->reserve.look.is_set && !r->reserve.is_short;
    if (!is_looking && may_fill(sb) && is_wanted(r))
        deadline_set(r->env.deadlines, &r->reserve.look, clock_us());
}

void reserve_init(struct registry *r) {
    deadline_init(&r->reserve.look, on_look);
}

void reserve_begin(struct registry *r) {
    if (is_wanted(r))
        deadline_set(r->env.deadlines, &r->reserve.look, clock_us());
}

void reserve_end(struct registry *r) {
    deadline_clear(r->env.deadlines, &r->reserve.look);
}
