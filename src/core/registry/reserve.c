#include "core/registry/reserve.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/disk_space.h"

/* Upper bounds of how fast a disk fills. They determine when to check next. */
#define BYTES_PER_US 4096
#define FILES_PER_MS 256
#define SOONEST_US UINT64_C(50000)
#define LATEST_US UINT64_C(10000000)
#define SHORT_US UINT64_C(1000000) /* interval of the checks while sandboxes wait for disk space */

static void reserve_hold(struct registry *r, struct sandbox *sb) {
    struct err why, e;
    sandbox_reserve_explain(&r->env, &why);
    struct change c = {.cause = BERM__V1__STATE_CAUSE__STATE_CAUSE_ERROR, .e = &why};
    if (sandbox_pause(sb, 0, &c, &e) < 0) /* if this fails, the next check tries again */
        log_text(LOG_WARN, "reserve", "%s: %s", sandbox_record(sb)->sandbox_id, e.text);
}

static void reserve_let_go(struct sandbox *sb) {
    struct err e;
    if (sandbox_resume(sb, 0, &(struct change){0}, &e) < 0)
        log_text(LOG_WARN, "reserve", "%s: %s", sandbox_record(sb)->sandbox_id, e.text);
}

static uint64_t reserve_next_look(const struct disk_space *space, bool some_wait) {
    if (disk_space_is_short(space))
        return SHORT_US;
    uint64_t us = some_wait ? SHORT_US : LATEST_US;
    us = MIN(us, (space->bytes - space->bytes_kept) / BYTES_PER_US);
    us = MIN(us / 1000, (space->files - space->files_kept) / FILES_PER_MS) * 1000;
    return MAX(us, SOONEST_US);
}

static void on_look(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, reserve.look);
    struct disk_space space;
    sandbox_reserve_read(&r->env, &space);
    bool is_short = disk_space_is_short(&space), is_ample = disk_space_is_ample(&space);
    bool some_wait = false, some_run = false;
    if (is_short && !r->reserve.is_short)
        log_text(LOG_WARN, "reserve",
                 "%llu MiB and %llu files are left on the disk: sandboxes are paused",
                 (unsigned long long)(space.bytes >> 20), (unsigned long long)space.files);
    r->reserve.is_short = is_short;
    LIST_FOR_EACH(node, &r->all.list) {
        struct sandbox *sb = sandbox_at(node);
        if (is_short && sandbox_may_fill_disk(sb))
            reserve_hold(r, sb);
        else if (is_ample && sandbox_is_held(sb))
            reserve_let_go(sb);
        some_wait |= sandbox_is_held(sb);
        some_run |= sandbox_may_fill_disk(sb);
    }
    if (some_wait || some_run)
        deadline_set(r->env.deadlines, d, clock_us() + reserve_next_look(&space, some_wait));
}

static bool reserve_is_wanted(const struct registry *r) {
    return r->env.limits->of[LIMIT_DISK_RESERVE] > 0 && r->env.is_recovered && !r->env.is_closing;
}

void reserve_watch(struct registry *r, struct sandbox *sb) {
    bool is_looking = r->reserve.look.is_set && !r->reserve.is_short;
    if (!is_looking && sandbox_may_fill_disk(sb) && reserve_is_wanted(r))
        deadline_set(r->env.deadlines, &r->reserve.look, clock_us());
}

void reserve_init(struct registry *r) {
    deadline_init(&r->reserve.look, on_look);
}

void reserve_begin(struct registry *r) {
    if (reserve_is_wanted(r))
        deadline_set(r->env.deadlines, &r->reserve.look, clock_us());
}

void reserve_end(struct registry *r) {
    deadline_clear(r->env.deadlines, &r->reserve.look);
}
