#include "spawn/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fd.h"
#include "spawn/caps.h"
#include "spawn/check.h"
#include "spawn/enter.h"
#include "spawn/layer.h"
#include "spawn/mounts.h"
#include "spawn/userns.h"

#define DESTROY_MAX_MS 10000
#define DESTROY_MIN_LOOKS 2000
/* Number of SIGCHLDs after which berm-spawn reaps all children even if it is not idle. */
#define REAP_ALL_EVERY 64
/* not defined in the oldest kernel headers that we build with */
#define PIDFD_GET_MNT_NS _IO(0xff, 3)

/* argv and env of PID 1 for exec, pointing into the request. */
struct strings {
    const char *argv[SPAWN_STRINGS_MAX + 1];
    const char *env[SPAWN_STRINGS_MAX + 1];
};

static void instance_split_text(const struct spawn_create *req, struct strings *out) {
    const char *at = req->text;
    for (uint32_t i = 0; i < req->n_argv; i++, at += strlen(at) + 1)
        out->argv[i] = at;
    out->argv[req->n_argv] = NULL;
    for (uint32_t i = 0; i < req->n_env; i++, at += strlen(at) + 1)
        out->env[i] = at;
    out->env[req->n_env] = NULL;
}

struct instance *instance_find(const struct spawn *s, const char *id) {
    struct map_node *node = map_find(&s->by_id, id);
    return node ? container_of(node, struct instance, by_id) : NULL;
}

/* Returns NULL when out of memory. */
static struct instance *instance_new(const char *id, uint32_t slot) {
    struct instance *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    snprintf(p->id, sizeof p->id, "%s", id);
    p->slot = slot;
    p->pid = p->wait_status = p->owner.map = p->mnt_ns = -1;
    cgroup_knobs_init(&p->knobs);
    list_init(&p->in_held);
    return p;
}

/* --- descriptors held for the claim of a parked instance --- */

static void instance_release(struct spawn *s, struct instance *p) {
    if (list_is_empty(&p->in_held))
        return;
    list_remove(&p->in_held);
    s->n_held--;
    cgroup_knobs_close(&p->knobs);
    fd_close_all(&p->owner.map, 1);
}

/* Opens and holds descriptors for the claim of a parked instance. When too many instances are held,
 * releases the oldest, which was most likely claimed without a CLAIM. */
static void instance_hold(struct spawn *s, struct instance *p) {
    if (s->n_held == SPAWN_HELD_MAX)
        instance_release(s, container_of(s->held.next, struct instance, in_held));
    list_push_back(&s->held, &p->in_held);
    s->n_held++;
    cgroup_knobs_open(&s->cg, p->id, SPAWN_HELD_FD, &p->knobs);
    mounts_map_ahead(s, &p->owner);
}

void instance_unpark(struct spawn *s, struct instance *p) {
    if (p->is_parked)
        s->given = p;
    p->is_parked = false;
}

void instance_let_go(struct spawn *s) {
    if (s->given != NULL)
        instance_release(s, TAKE(s->given));
}

/* --- lifetime --- */

static void instance_add(struct spawn *s, struct instance *p) {
    list_push_back(&s->instances, &p->node);
    map_add(&s->by_id, &p->by_id, p->id);
    s->slots[p->slot / 8] |= (uint8_t)(1u << p->slot % 8);
}

static bool instance_is_taken(const struct spawn *s, const char *id, uint32_t slot) {
    if (instance_find(s, id) != NULL || (s->slots[slot / 8] & 1u << slot % 8))
        return true;
    LIST_FOR_EACH(it, &s->dying) {
        const struct instance *p = container_of(it, struct instance, node);
        if (p->slot < SPAWN_SLOTS && strcmp(p->id, id) == 0)
            return true;
    }
    return false;
}

struct restore {
    struct spawn *s;
    int error;
};

static void instance_restore_one(const char *id, void *arg) {
    struct restore *all = arg;
    char name[SPAWN_ID_MAX] = "";
    size_t n = strlen(id);
    uint32_t owner = 0, slot = 0;
    if (n >= sizeof name)
        return;
    memcpy(name, id, n);
    if (!check_id(name) || cgroup_owner(&all->s->cg, id, &owner) < 0 || !userns_slot(owner, &slot))
        return; /* not ours, or incomplete; SWEEP removes it */
    struct instance *kept = instance_new(name, slot);
    if (kept == NULL)
        all->error = -ENOMEM;
    else
        instance_add(all->s, kept);
}

int instances_restore(struct spawn *s) {
    struct restore all = {.s = s, .error = map_init(&s->by_id)};
    if (all.error == 0)
        cgroup_each_seat(&s->cg, instance_restore_one, &all);
    return all.error;
}

static int instance_map_ids(struct spawn *s, pid_t pid, uint32_t slot) {
    char line[48];
    snprintf(line, sizeof line, "0 %u %u\n", userns_base(slot), SPAWN_UID_SPAN);
    return userns_map(s->proc, pid, line, line);
}

/* Runs in the parent: maps ids and builds the mounts while the child prepares itself. */
static int instance_serve_child(struct spawn *s, const struct spawn_create *req,
                                const struct check_fds *fds, struct enter *e, struct mounts *m,
                                pid_t pid, uint32_t *ret_step) {
    *ret_step = STEP_IDMAP;
    int r = instance_map_ids(s, pid, req->slot);
    AUTO_CLOSE int userns = r < 0 ? r : userns_open(s->proc, pid);
    if (userns < 0)
        return userns;
    enter_release(e, ENTER_MAPPED);
    struct mounts_input in = {.image = fds->image, .binds = fds->binds};
    r = mounts_build(s, req, &in, userns, e, m, ret_step);
    if (r < 0)
        return r;
    enter_release(e, ENTER_MOUNTS);
    r = enter_wait(e);
    *ret_step = e->step;
    return r;
}

static void instance_wait_gone(pid_t pid) {
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Removes what a failed start created. SWEEP removes what cannot be removed now. */
static void instance_remove_half(struct spawn *s, const char *id) {
    bool made_layer = s->spent.made_layer;
    mounts_done(&s->spent);
    if (cgroup_remove(&s->cg, id) == 0 && made_layer && layer_remove(s, id) == 0)
        layer_empty_trash(s);
}

static int instance_start(struct spawn *s, const struct spawn_create *req,
                          const struct check_fds *fds, struct enter *e, int *ret_pidfd,
                          uint32_t *ret_step) {
    *ret_step = STEP_CGROUP;
    int r = cgroup_make(&s->cg, req->id, &req->limits, userns_base(req->slot), &e->seat);
    if (r < 0)
        return r;
    *ret_step = STEP_NETNS;
    r = net_enter_fresh(&s->net);
    AUTO_CLOSE int pidfd = -1;
    if (r == 0) {
        *ret_step = STEP_CLONE;
        r = userns_creator(userns_base(req->slot));
    }
    if (r == 0) {
        r = enter_clone(e, s->stack, SPAWN_STACK_BYTES, &pidfd);
        int back = userns_creator(0);
        if (back < 0)
            abort(); /* do not continue with half of root's privileges */
    }
    pid_t pid = r;
    if (r > 0) {
        r = instance_serve_child(s, req, fds, e, &s->spent, pid, ret_step);
        if (r < 0) { /* wait, because the child uses our memory until it ends */
            enter_release(e, ENTER_ABORT);
            if (enter_wait(e) < 0)
                kill(pid, SIGKILL);
            instance_wait_gone(pid);
        }
    }
    cgroup_seat_close(&e->seat);
    fd_close_all(&e->sys, 1); /* the child opened these while it shared our descriptors */
    fd_close_all(&e->sysctl, 1);
    if (r < 0) {
        instance_remove_half(s, req->id);
        return r;
    }
    *ret_pidfd = TAKE_FD(pidfd);
    return pid;
}

/* Returns a descriptor that holds the mount namespace, or -1. The last holder of the namespace
 * unmounts its mounts, which waits several times for every CPU. Without our descriptor that would
 * be PID 1 at its exit, which everybody waits for. Kernels before 6.11 lack the ioctl. */
static int instance_hold_mounts(int pidfd) {
    AUTO_CLOSE int ns = ioctl(pidfd, PIDFD_GET_MNT_NS);
    return ns < 0 ? -1 : fcntl(ns, F_DUPFD_CLOEXEC, SPAWN_HELD_FD);
}

static bool instance_has_writable_mount(const struct spawn_create *req) {
    for (uint32_t i = 0; i < req->n_mounts; i++)
        if (req->mounts[i].flags & SPAWN_MOUNT_WRITABLE)
            return true;
    return false;
}

static int instance_create_checked(struct spawn *s, const struct spawn_create *req, const int *fds,
                                   size_t n_fds, struct spawn_reply *reply, int *ret_pidfd) {
    reply->step = STEP_REQUEST;
    int r = check_create(req, fds, n_fds, s->features, &reply->missing);
    if (r == -ENOTSUP)
        reply->step = STEP_FEATURE;
    if (r < 0)
        return r;
    reply->step = STEP_EXISTS;
    if (instance_is_taken(s, req->id, req->slot))
        return -EEXIST;
    struct instance *p = instance_new(req->id, req->slot);
    AUTO_FREE struct strings *text = malloc(sizeof *text);
    if (p == NULL || text == NULL) {
        free(p);
        return -ENOMEM;
    }
    instance_split_text(req, text);
    struct check_fds parts = check_split_fds(req, fds);
    struct enter e = {
        .seat.v2_cgroup = -1,
        .sys = -1,
        .sysctl = -1,
        .proc = s->proc,
        .masks = s->masks,
        .guest = s->guest,
        .control = parts.control,
        .stdio = {parts.stdio[0], parts.stdio[1], parts.stdio[2]},
        .flags = req->flags,
        .caps = caps_for_profile(req->profile),
        .last_cap = s->last_cap,
        .landlock = (s->features & SPAWN_HAS_LANDLOCK_SCOPE) != 0,
        .no_marks = instance_has_writable_mount(req),
        .parent = s->self,
        .is_tied = s->is_tied,
        .file_bytes = req->limits.file_bytes,
        .hostname = req->hostname[0] ? req->hostname : req->id,
        .argv = text->argv,
        .env = text->env,
    };
    r = instance_start(s, req, &parts, &e, ret_pidfd, &reply->step);
    if (r < 0) {
        free(p);
        return r;
    }
    p->pid = r;
    p->is_parked = (req->flags & SPAWN_CREATE_PARKED) != 0;
    p->owner = (struct mounts_owner){req->profile, userns_base(req->slot), .map = -1};
    if (p->is_parked)
        instance_hold(s, p);
    if (!s->is_tied) /* if tied, nobody but us waits for its exit */
        p->mnt_ns = instance_hold_mounts(*ret_pidfd);
    instance_add(s, p);
    reply->pid = r;
    return 0;
}

void instance_create(struct spawn *s, const struct spawn_create *req, const int *fds, size_t n_fds,
                     struct spawn_reply *reply, int *ret_pidfd) {
    if (s->spent.n_fds > MOUNTS_SPENT_MAX)
        mounts_done(&s->spent);
    s->spent.made_layer = false;
    int r = instance_create_checked(s, req, fds, n_fds, reply, ret_pidfd);
    reply->error = -MIN(r, 0);
    if (r >= 0)
        reply->step = STEP_NONE;
}

static int64_t instance_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct instance *instance_destroy(struct spawn *s, const struct spawn_destroy *req) {
    struct instance *p = instance_find(s, req->id);
    if (p != NULL) {
        list_remove(&p->node);
        map_remove(&s->by_id, &p->by_id);
    } else {
        p = instance_new(req->id, SPAWN_SLOTS);
        if (p == NULL)
            return NULL;
    }
    p->seq = req->head.seq;
    p->flags = req->flags;
    p->since_ms = instance_now_ms();
    list_push_back(&s->dying, &p->node);
    fd_close_all(&p->mnt_ns, 1); /* so that dying instances unmount in parallel */
    cgroup_kill(&s->cg, p->id);
    if (p->pid > 0 && p->wait_status == -1)
        kill(p->pid, SIGKILL); /* not reaped, so the pid cannot be reused */
    instance_release(s, p);
    /* While PID 1 exits, close the descriptors that the instance was built with, because they must
     * not outlive it. */
    mounts_done(&s->spent);
    return p;
}

/* Calls waitpid itself, because the exit may have shared a SIGCHLD with another exit. */
static bool instance_has_ended(struct instance *p) {
    return p->pid <= 0 || p->wait_status != -1 || waitpid(p->pid, &p->wait_status, WNOHANG) > 0;
}

bool instance_finish(struct spawn *s, struct instance *p, int *ret_error, uint32_t *ret_step) {
    *ret_error = 0;
    *ret_step = STEP_NONE;
    int r = instance_has_ended(p) ? cgroup_remove(&s->cg, p->id) : -EBUSY;
    /* Also count attempts, because on a suspended machine the deadline passes without any
     * attempt. */
    bool is_late =
        instance_now_ms() - p->since_ms >= DESTROY_MAX_MS && p->looks >= DESTROY_MIN_LOOKS;
    if (r == -EBUSY && !is_late) {
        p->looks++;
        cgroup_kill(&s->cg, p->id); /* a process may have joined after the last kill */
        return false;
    }
    if (r < 0) {
        *ret_error = r == -EBUSY ? ETIMEDOUT : -r;
        *ret_step = STEP_KILL;
    } else if (p->flags & SPAWN_DESTROY_FILES) {
        r = layer_remove(s, p->id);
        if (r == 0)
            layer_empty_trash(s);
        if (r < 0 && r != -ENOENT) {
            *ret_error = -r;
            *ret_step = STEP_REMOVE;
        }
    }
    list_remove(&p->node);
    return true;
}

void instance_free(struct spawn *s, struct instance *p) {
    if (p->slot < SPAWN_SLOTS)
        s->slots[p->slot / 8] &= (uint8_t) ~(1u << p->slot % 8);
    fd_close_all(&p->mnt_ns, 1);
    free(p);
}

static bool instance_note_exit(struct list *instances, pid_t pid, int status) {
    LIST_FOR_EACH(it, instances) {
        struct instance *p = container_of(it, struct instance, node);
        /* an already reaped instance may have had the same pid */
        if (p->pid != pid || p->wait_status != -1)
            continue;
        p->wait_status = status;
        fd_close_all(&p->mnt_ns, 1);
        return true;
    }
    return false;
}

/* Reaps one ended child: `which`, or any child if `which` is -1. Returns whether it reaped one. */
static bool instance_reap_one(struct spawn *s, pid_t which) {
    int status;
    pid_t pid = waitpid(which, &status, WNOHANG);
    if (pid <= 0)
        return false;
    if (pid == s->trash_pid)
        layer_trash_ended(s);
    if (!instance_note_exit(&s->dying, pid,
                            status)) /* search the shorter and likelier list first */
        instance_note_exit(&s->instances, pid, status);
    return true;
}

void instance_reap(struct spawn *s, pid_t pid) {
    instance_reap_one(s, pid);
    if (++s->unseen_ends >= REAP_ALL_EVERY)
        instance_reap_all(s);
}

void instance_reap_all(struct spawn *s) {
    while (s->unseen_ends > 0 && instance_reap_one(s, -1))
        ;
    s->unseen_ends = 0;
}
