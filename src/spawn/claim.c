/* claim — gives a parked instance to a sandbox.
 *
 * The instance was created before any request. A CLAIM sets what differs between sandboxes: host
 * name, limits and mounts; nothing else can change later. To set them, berm-spawn enters the
 * namespaces of the instance. No client's program has run in the instance yet. Even if one had,
 * berm-spawn would only use directories that were created for the claim. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "spawn/check.h"
#include "spawn/enter_mounts.h"
#include "spawn/mounts.h"
#include "spawn/instance.h"
#include "spawn/sys.h"
#include "spawn/userns.h"

/* Sets the limits; 0 keeps the old value. */
static int claim_limit(const struct spawn *s, const struct instance *p,
                       const struct spawn_limits *l) {
    return cgroup_knobs_suffice(&p->knobs, l) ? cgroup_knobs_turn(&s->cg, &p->knobs, l)
                                              : cgroup_set_limits(&s->cg, p->id, l);
}

/* Returns to our own namespaces. Aborts on failure, because the process must not continue half
 * inside a sandbox. */
static void claim_leave(const struct spawn *s, int kinds) {
    if (((kinds & CLONE_NEWUTS) && setns(s->own_uts, CLONE_NEWUTS) < 0) ||
        ((kinds & CLONE_NEWNS) && spawn_leave_host(s) < 0))
        abort();
}

static int claim_attach(const struct spawn_claim *req, const int *binds) {
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < req->n_mounts; i++)
        r = enter_attach_late(binds[i], req->mounts[i].target + 1);
    return r;
}

static int claim_enter(struct spawn *s, const struct spawn_claim *req, const struct instance *p,
                       const int *binds, uint32_t *ret_step) {
    bool has_name = req->hostname[0] != '\0';
    int kinds = (has_name ? CLONE_NEWUTS : 0) | (req->n_mounts > 0 ? CLONE_NEWNS : 0);
    if (kinds == 0)
        return 0;
    *ret_step = STEP_CLONE;
    bool is_held = kinds == CLONE_NEWNS && p->mnt_ns >= 0;
    /* The pid cannot be reused, because the process is our child and not reaped. */
    AUTO_CLOSE int pidfd = is_held ? -1 : (int)sys2(SYS_pidfd_open, p->pid, 0);
    if (!is_held && pidfd < 0)
        return pidfd;
    if (setns(is_held ? p->mnt_ns : pidfd, kinds) < 0)
        return -errno;
    *ret_step = STEP_HOSTNAME;
    int r =
        has_name ? (int)sys2(SYS_sethostname, (long)req->hostname, (long)strlen(req->hostname)) : 0;
    if (r == 0) {
        *ret_step = STEP_MOUNT;
        r = claim_attach(req, binds);
    }
    claim_leave(s, kinds);
    return r;
}

static int claim(struct spawn *s, const struct spawn_claim *req, const int *fds, size_t n_fds,
                 struct spawn_reply *reply) {
    int binds[SPAWN_CLAIM_MOUNTS_MAX];
    reply->step = STEP_REQUEST;
    int r = check_claim(req, fds, n_fds, s->features, &reply->missing);
    if (r == -ENOTSUP)
        reply->step = STEP_FEATURE;
    if (r < 0)
        return r;
    struct instance *p = instance_find(s, req->id);
    if (p == NULL || !p->is_parked || p->wait_status != -1)
        return -ENOENT;
    r = mounts_binds(s, req->mounts, req->n_mounts, fds, &p->owner, &s->spent, binds, &reply->step);
    instance_unpark(s, p);
    if (r == 0) {
        reply->step = STEP_CGROUP;
        r = claim_limit(s, p, &req->limits);
    }
    return r < 0 ? r : claim_enter(s, req, p, binds, &reply->step);
}

void instance_claim(struct spawn *s, const struct spawn_claim *req, const int *fds, size_t n_fds,
                    struct spawn_reply *reply) {
    if (s->spent.n_fds > MOUNTS_SPENT_MAX)
        mounts_done(&s->spent);
    reply->error = -claim(s, req, fds, n_fds, reply);
    if (reply->error == 0)
        reply->step = STEP_NONE;
}
