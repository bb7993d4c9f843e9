#include "core/reserve.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/sandbox_impl.h"

/* Nobody fills a disk faster: the next look is when that much could have been written. */
#define BYTES_PER_US 4096
#define SOONEST_US UINT64_C(50000)
#define LATEST_US UINT64_C(10000000)
#define SHORT_US UINT64_C(1000000) /* while some wait for room */

static uint64_t reserve_bytes(const struct registry *r) {
    return (uint64_t)r->spec.limits->of[LIMIT_DISK_RESERVE];
}

/* A disk that does not tell counts as having room. */
static uint64_t free_bytes(const struct registry *r) {
    struct statvfs v;
    return fstatvfs(r->spec.state_dir_fd, &v) < 0 ? UINT64_MAX : (uint64_t)v.f_bavail * v.f_frsize;
}

static bool is_unlimited(const struct sandbox *sb) {
    const Berm__V1__SandboxSpec *spec = sb->record->spec;
    return (!spec->root || spec->root->layer != BERM__V1__WRITABLE_LAYER__WRITABLE_LAYER_MEMORY) &&
           (!spec->limits || spec->limits->disk_bytes <= 0);
}

static bool may_fill(const struct sandbox *sb) {
    return sandbox_is(sb, SB_READY) && sb->wanted == WANTED_RUN && is_unlimited(sb);
}

bool reserve_holds(const struct sandbox *sb) {
    const Berm__V1__StateReason *why = sb->record->reason;
    return sb->wanted == WANTED_PAUSE && why &&
           why->cause == BERM__V1__STATE_CAUSE__STATE_CAUSE_ERROR &&
           strcmp(why->code, err_face(ERR_STORE_FULL)->name) == 0;
}

void reserve_explain(const struct registry *r, struct err *ret_e) {
    err_set(ret_e, ERR_STORE_FULL,
            "the disk of the state directory has less than its reserve of %llu MiB left",
            (unsigned long long)(reserve_bytes(r) >> 20));
}

int reserve_check(const struct sandbox *sb, struct err *e) {
    const struct registry *r = sb->registry;
    if (!is_unlimited(sb) || free_bytes(r) >= reserve_bytes(r))
        return 0;
    reserve_explain(r, e);
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

static uint64_t next_look(uint64_t left, bool some_wait) {
    uint64_t us = MIN(left / BYTES_PER_US, some_wait ? SHORT_US : LATEST_US);
    return MAX(us, SOONEST_US);
}

static void on_look(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, reserve.look);
    uint64_t reserve = reserve_bytes(r), left = free_bytes(r);
    bool is_short = left < reserve, has_room = left >= reserve + reserve / 8;
    bool some_wait = false, some_run = false;
    if (is_short && !r->reserve.is_short)
        log_text(LOG_WARN, "reserve", "%llu MiB are left on the disk: sandboxes are paused",
                 (unsigned long long)(left >> 20));
    r->reserve.is_short = is_short;
    LIST_FOR_EACH(node, &r->all) {
        struct sandbox *sb = container_of(node, struct sandbox, in_registry);
        if (is_short && may_fill(sb))
            hold(sb);
        else if (has_room && reserve_holds(sb))
            let_go(sb);
        some_wait |= reserve_holds(sb);
        some_run |= may_fill(sb);
    }
    if (some_wait || some_run)
        deadline_set(r->spec.deadlines, d,
                     clock_us() + (is_short ? SHORT_US : next_look(left - reserve, some_wait)));
}

static bool is_wanted(const struct registry *r) {
    return reserve_bytes(r) > 0 && r->is_recovered && !r->closing && r->spec.driver &&
           (r->spec.driver->features & DRIVER_HAS_PAUSE) != 0;
}

void reserve_watch(struct sandbox *sb) {
    struct registry *r = sb->registry;
    bool is_looking = r->reserve.look.is_set && !r->reserve.is_short;
    if (!is_looking && may_fill(sb) && is_wanted(r))
        deadline_set(r->spec.deadlines, &r->reserve.look, clock_us());
}

void reserve_init(struct registry *r) {
    deadline_init(&r->reserve.look, on_look);
}

void reserve_begin(struct registry *r) {
    if (is_wanted(r))
        deadline_set(r->spec.deadlines, &r->reserve.look, clock_us());
}

void reserve_end(struct registry *r) {
    deadline_clear(r->spec.deadlines, &r->reserve.look);
}
