#include "core/registry/recovery.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/box/box_dir.h"
#include "core/registry/pool.h"
#include "core/registry/reserve.h"

#define WAKE_AT_ONCE 8
#define WAKE_PAUSE_US 2000
#define RECOVERY_QUIET_US 2000000 /* recovery waits this long after the last guest that answered */
#define RECOVERY_MAX_US 10000000  /* recovery waits this long in total */

/* --- the end: the event, then the daemon listens --- */

struct report {
    struct ledger_wait wait;
    struct registry *registry;
};

/* Wakes only a few sandboxes per loop turn, so that calls do not wait long. */
static void recovery_wake_some(struct registry *r) {
    for (int i = 0; i < WAKE_AT_ONCE && sandboxes_wake_next(&r->all); i++)
        ;
    if (!list_is_empty(&r->all.dormant))
        deadline_set(r->env.deadlines, &r->wake, clock_us() + WAKE_PAUSE_US);
}

static void on_wake(struct deadline *d) {
    recovery_wake_some(container_of(d, struct registry, wake));
}

static void on_reported(struct ledger_wait *w, const struct err *e) {
    struct report *report = container_of(w, struct report, wait);
    struct registry *r = report->registry;
    free(report);
    if (e) /* on a full disk callers must still be able to delete sandboxes */
        log_text(LOG_ERROR, "store", "the start is not recorded: %s", e->text);
    r->on_recovered(r, NULL);
    if (r->env.is_closing)
        return;
    recovery_wake_some(r);
    pool_begin(r->pool);
    reserve_begin(r);
}

static void recovery_put_event(struct registry *r, struct entry *t, int state) {
    Berm__V1__Event event = BERM__V1__EVENT__INIT;
    Berm__V1__Actor actor = BERM__V1__ACTOR__INIT;
    Berm__V1__DaemonEvent daemon = BERM__V1__DAEMON_EVENT__INIT;
    bool is_start = state == BERM__V1__DAEMON_STATE__DAEMON_STATE_SERVING;
    actor.kind = BERM__V1__ACTOR_KIND__ACTOR_KIND_DAEMON;
    daemon.state = (Berm__V1__DaemonState)state;
    daemon.version = (char *)r->env.version;
    daemon.run_id = (char *)r->env.run_id;
    daemon.adopted_sandboxes = is_start ? r->n_adopted : 0;
    daemon.adopted_execs = is_start ? r->n_adopted_execs : 0;
    daemon.lost_execs = is_start ? r->env.n_lost_execs : 0;
    event.kind = BERM__V1__EVENT_KIND__EVENT_KIND_DAEMON;
    event.actor = &actor;
    event.body_case = BERM__V1__EVENT__BODY_DAEMON;
    event.daemon = &daemon;
    entry_event(t, &event, 0, NULL);
}

void recovery_report_end(struct registry *r) {
    struct entry *t = r->env.is_recovered ? ledger_begin(r->env.ledger) : NULL;
    if (!t)
        return;
    recovery_put_event(r, t, BERM__V1__DAEMON_STATE__DAEMON_STATE_DRAINING);
    ledger_commit(t, NULL);
}

static void recovery_report(struct registry *r) {
    struct err e;
    struct report *report = malloc(sizeof *report);
    struct entry *t = report ? ledger_begin(r->env.ledger) : NULL;
    if (!t) {
        free(report);
        err_set(&e, ERR_STORE_FAILED, "the store does not accept changes");
        r->on_recovered(r, &e);
        return;
    }
    report->registry = r;
    ledger_wait_init(&report->wait, on_reported);
    recovery_put_event(r, t, BERM__V1__DAEMON_STATE__DAEMON_STATE_SERVING);
    ledger_commit(t, &report->wait);
}

/* --- sweeping --- */

/* Removes directories that no record names. They exist if the last daemon was killed during a
 * removal. */
static void recovery_sweep_directories(struct registry *r) {
    int copy = openat(r->env.sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *d; list && (d = readdir(list));) {
        if (d->d_name[0] == '.' || sandboxes_find(&r->all, d->d_name))
            continue;
        box_dir_remove(r->env.sandboxes_fd, d->d_name);
    }
    if (list)
        closedir(list);
}

static void on_swept(void *user, const struct err *e) {
    struct registry *r = user;
    if (e)
        log_text(LOG_WARN, "sweep", "%s", e->text);
    if (--r->n_sweeping == 0)
        recovery_report(r);
}

static void recovery_sweep_driver(struct registry *r, struct driver *d) {
    size_t n = 0;
    AUTO_FREE const char **ids = calloc(r->all.by_id.count + 1, sizeof *ids);
    if (!ids)
        return;
    LIST_FOR_EACH(node, &r->all.list) {
        struct sandbox *sb = sandbox_at(node);
        if (sandbox_box(sb)->driver == d)
            ids[n++] = sandbox_instance_id(sb);
    }
    r->n_sweeping++;
    driver_sweep(d, ids, n, on_swept, r);
}

static void recovery_sweep(struct registry *r) {
    recovery_sweep_directories(r);
    /* One extra, so that the count reaches 0 only after all drivers were asked. */
    r->n_sweeping = 1;
    for (size_t i = 0; env_driver_at(&r->env, i); i++)
        recovery_sweep_driver(r, env_driver_at(&r->env, i));
    on_swept(r, NULL);
}

/* --- adopting --- */

static void recovery_extend_deadline(struct registry *r) {
    if (!r->env.recovery_timed_out)
        deadline_set(r->env.deadlines, &r->recovery_deadline,
                     MIN(clock_us() + RECOVERY_QUIET_US, r->recover_by_us));
}

void recovery_count_one(struct registry *r) {
    if (--r->n_recovering > 0) {
        recovery_extend_deadline(r);
        return;
    }
    deadline_clear(r->env.deadlines, &r->recovery_deadline);
    LIST_FOR_EACH(node, &r->all.list) {
        struct sandbox *sb = sandbox_at(node);
        bool is_up = box_is_up(sandbox_box(sb));
        r->n_adopted += is_up;
        r->n_adopted_execs += is_up ? sandbox_execs(sb)->n_running : 0;
    }
    r->env.is_recovered = true;
    registry_prune(r);
    recovery_sweep(r);
}

/* Stops waiting for guests. Status files show which execs have ended. A guest reports the others
 * when it answers. */
static void on_recovery_deadline(struct deadline *d) {
    struct registry *r = container_of(d, struct registry, recovery_deadline);
    r->env.recovery_timed_out = true;
    LIST_FOR_EACH(node, &r->all.list)
        sandbox_recovery_timeout(sandbox_at(node));
}

void recovery_init(struct registry *r) {
    deadline_init(&r->wake, on_wake);
    deadline_init(&r->recovery_deadline, on_recovery_deadline);
}

void registry_recover(struct registry *r,
                      void (*on_recovered)(struct registry *r, const struct err *e)) {
    r->on_recovered = on_recovered;
    /* One extra, so that the count reaches 0 only after all sandboxes were started. */
    r->n_recovering = 1;
    LIST_FOR_EACH(node, &r->all.list)
        r->n_recovering++;
    r->recover_by_us = clock_us() + RECOVERY_MAX_US;
    recovery_extend_deadline(r);
    LIST_FOR_EACH(node, &r->all.list)
        sandbox_recover(sandbox_at(node));
    recovery_count_one(r);
}
