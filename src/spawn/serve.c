#include "spawn/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "spawn/check.h"
#include "spawn/instance.h"
#include "spawn/sys.h"
#include "spawn/userns.h"

/* A request in progress. */
struct turn {
    struct serve *v;
    union spawn_request *req;
    const int *fds;
    size_t n_fds;
    struct spawn_reply reply;
    int out_fds[SPAWN_EXEC_CGROUPS_MAX];
    bool later; /* the reply is sent later */
};

static void serve_fail(struct turn *t, int error, enum spawn_step step) {
    t->reply.error = -error;
    t->reply.step = step;
}

static void serve_reply_if_failed(struct turn *t, int r, enum spawn_step step) {
    if (r < 0)
        serve_fail(t, r, step);
}

static void on_hello(struct turn *t) {
    t->reply.features = t->v->s->features;
    t->reply.landlock_abi = (uint32_t)t->v->s->landlock_abi;
}

static void on_create(struct turn *t) {
    int pidfd = -1;
    instance_create(t->v->s, &t->req->create, t->fds, t->n_fds, &t->reply, &pidfd);
    if (pidfd >= 0)
        t->out_fds[t->reply.n_fds++] = pidfd;
}

static void on_destroy(struct turn *t) {
    if (t->req->destroy.reserved != 0 ||
        (t->req->destroy.flags & ~(uint32_t)SPAWN_DESTROY_ALL) != 0) {
        serve_fail(t, -EINVAL, STEP_REQUEST);
        return;
    }
    if (instance_destroy(t->v->s, &t->req->destroy) == NULL)
        serve_fail(t, -ENOMEM, STEP_KILL);
    else
        t->later = true;
}

static void on_freeze(struct turn *t) {
    serve_reply_if_failed(t, cgroup_freeze(&t->v->s->cg, t->req->by_id.id, true), STEP_CGROUP);
}

static void on_thaw(struct turn *t) {
    serve_reply_if_failed(t, cgroup_freeze(&t->v->s->cg, t->req->by_id.id, false), STEP_CGROUP);
}

static void on_limits(struct turn *t) {
    const struct spawn_limits *l = &t->req->set_limits.limits;
    int r = check_limits(l, t->v->s->features, &t->reply.missing);
    if (r == 0 && (l->disk_bytes != 0 || l->disk_inodes != 0 || l->file_bytes != 0))
        r = -EINVAL;
    if (r < 0)
        serve_fail(t, r, r == -ENOTSUP ? STEP_FEATURE : STEP_REQUEST);
    else
        serve_reply_if_failed(t, cgroup_set_limits(&t->v->s->cg, t->req->set_limits.id, l),
                              STEP_CGROUP);
}

static void on_usage(struct turn *t) {
    serve_reply_if_failed(t, cgroup_usage(&t->v->s->cg, t->req->by_id.id, &t->reply.usage),
                          STEP_CGROUP);
}

static int serve_make_cgroup(struct turn *t, uint32_t cgroup, uint32_t owner) {
    struct spawn *s = t->v->s;
    int fd = -1;
    int r = cgroup_exec_make(&s->cg, t->req->exec_cgroup.id, cgroup, owner, &fd);
    if (r < 0 || s->cg.v2 < 0) {
        if (r == 0)
            t->out_fds[t->reply.n_fds++] = fd;
        return r;
    }
    /* Pass the cgroup as a separate mount, so that ".." inside does not lead to the parent. */
    r = spawn_enter_host(s);
    int tree = r < 0 ? r : sys_clone_tree(fd, "");
    if (r == 0)
        r = spawn_leave_host(s);
    close(fd);
    if (tree < 0)
        return tree;
    t->out_fds[t->reply.n_fds++] = tree;
    return r;
}

static void on_exec_cgroup(struct turn *t) {
    const struct spawn_exec_cgroup *req = &t->req->exec_cgroup;
    if (req->count == 0 || req->count > SPAWN_EXEC_CGROUPS_MAX ||
        req->first > UINT32_MAX - req->count) {
        serve_fail(t, -EINVAL, STEP_REQUEST);
        return;
    }
    uint32_t owner = 0; /* uid that may start programs in the cgroup */
    struct instance *p = instance_find(t->v->s, req->id);
    int r = 0;
    if (p != NULL) {
        owner = userns_base(p->slot);
        instance_unpark(t->v->s, p);
    } else {
        r = cgroup_owner(&t->v->s->cg, req->id, &owner);
    }
    for (uint32_t i = 0; r == 0 && i < req->count; i++)
        r = serve_make_cgroup(t, req->first + i, owner);
    t->reply.fds_per_cgroup = 1;
    serve_reply_if_failed(t, r, STEP_CGROUP);
}

static void on_kill_cgroup(struct turn *t) {
    const struct spawn_kill_cgroup *req = &t->req->kill_exec_cgroup;
    int r = req->reserved != 0 ? -EINVAL : cgroup_exec_kill(&t->v->s->cg, req->id, req->cgroup);
    if (r == 0 && cgroup_usage(&t->v->s->cg, req->id, &t->reply.usage) < 0)
        t->reply.usage = (struct spawn_usage){0};
    serve_reply_if_failed(t, r, STEP_KILL);
}

static void on_claim(struct turn *t) {
    instance_claim(t->v->s, &t->req->claim, t->fds, t->n_fds, &t->reply);
}

static void on_sweep(struct turn *t) {
    int r = sweep_add(&t->v->owned, &t->req->sweep);
    if (r == 0 && t->req->sweep.last) {
        t->reply.swept = sweep_run(t->v->s, &t->v->owned);
        sweep_clear(&t->v->owned);
    }
    serve_reply_if_failed(t, r, STEP_REQUEST);
}

/* `id` is the offset of the id in the request, or 0 for a request without an id. The id is checked
 * before the handler runs. */
static const struct row {
    uint32_t size;
    uint32_t id;
    bool takes_fds;
    void (*handle)(struct turn *t);
} table[] = {
    [SPAWN_HELLO] = {sizeof(struct spawn_hello), 0, false, on_hello},
    [SPAWN_CREATE] = {sizeof(struct spawn_create), offsetof(struct spawn_create, id), true,
                      on_create},
    [SPAWN_DESTROY] = {sizeof(struct spawn_destroy), offsetof(struct spawn_destroy, id), false,
                       on_destroy},
    [SPAWN_FREEZE] = {sizeof(struct spawn_by_id), offsetof(struct spawn_by_id, id), false,
                      on_freeze},
    [SPAWN_THAW] = {sizeof(struct spawn_by_id), offsetof(struct spawn_by_id, id), false, on_thaw},
    [SPAWN_LIMITS] = {sizeof(struct spawn_set_limits), offsetof(struct spawn_set_limits, id), false,
                      on_limits},
    [SPAWN_USAGE] = {sizeof(struct spawn_by_id), offsetof(struct spawn_by_id, id), false, on_usage},
    [SPAWN_EXEC_CGROUP] = {sizeof(struct spawn_exec_cgroup), offsetof(struct spawn_exec_cgroup, id),
                           false, on_exec_cgroup},
    [SPAWN_KILL_CGROUP] = {sizeof(struct spawn_kill_cgroup), offsetof(struct spawn_kill_cgroup, id),
                           false, on_kill_cgroup},
    [SPAWN_SWEEP] = {sizeof(struct spawn_sweep), 0, false, on_sweep},
    [SPAWN_CLAIM] = {sizeof(struct spawn_claim), offsetof(struct spawn_claim, id), true, on_claim},
};

static const struct row *serve_find_row(const struct turn *t, size_t n) {
    const struct spawn_head *head = &t->req->head;
    if (n < sizeof *head || head->version != SPAWN_VERSION || head->kind >= COUNT_OF(table))
        return NULL;
    const struct row *row = &table[head->kind];
    if (row->handle == NULL || n != row->size || head->size != row->size ||
        (t->n_fds > 0 && !row->takes_fds))
        return NULL;
    if (row->id != 0 && !check_id((const char *)t->req + row->id))
        return NULL;
    return row;
}

static int serve_send_reply(struct serve *v, struct spawn_reply *reply, int *fds) {
    reply->head.version = SPAWN_VERSION;
    reply->head.size = sizeof *reply;
    int r = v->sock < 0 ? -ENOTCONN : fd_send(v->sock, reply, sizeof *reply, fds, reply->n_fds);
    fd_close_all(fds, reply->n_fds);
    return r;
}

int serve_one(struct serve *v) {
    union spawn_request *request = &v->request;
    int fds[FD_PASS_MAX];
    struct turn t = {.v = v, .req = request, .fds = fds};
    memset(&request->head, 0, sizeof request->head);
    ssize_t n = fd_recv(v->sock, request, sizeof *request, fds, COUNT_OF(fds), &t.n_fds);
    if (n == 0 || (n < 0 && n != -EMSGSIZE && n != -EMFILE))
        return n == 0 ? -ENOTCONN : (int)n;
    const struct row *row = n < 0 ? NULL : serve_find_row(&t, (size_t)n);
    t.reply.head.kind = request->head.kind;
    t.reply.head.seq = request->head.seq;
    if (row == NULL)
        serve_fail(&t, n == -EMFILE ? -EMFILE : -EINVAL, STEP_REQUEST);
    else
        row->handle(&t);
    if (t.reply.error != 0) { /* a failure returns no descriptors */
        fd_close_all(t.out_fds, t.reply.n_fds);
        t.reply.n_fds = 0;
    }
    int r = t.later ? 0 : serve_send_reply(v, &t.reply, t.out_fds);
    fd_close_all(fds, t.n_fds);
    instance_let_go(v->s);
    return r;
}

void serve_dying(struct serve *v) {
    LIST_FOR_EACH(it, &v->s->dying) {
        struct instance *p = container_of(it, struct instance, node);
        struct spawn_reply reply = {.head = {.kind = SPAWN_DESTROY, .seq = p->seq}};
        int error;
        uint32_t step;
        if (!instance_finish(v->s, p, &error, &step))
            continue;
        reply.error = error;
        reply.step = step;
        reply.wait_status = p->wait_status;
        bool is_swept = p->is_swept;
        instance_free(v->s, p);
        if (is_swept && list_is_empty(&v->s->dying))
            sweep_roots(v->s);
        if (!is_swept && serve_send_reply(v, &reply, NULL) < 0)
            continue; /* the client disconnected; the work is done anyway */
        if (list_is_empty(&v->s->dying))
            spawn_chores(v->s);
    }
}

void serve_init(struct serve *v, struct spawn *s) {
    memset(v, 0, sizeof *v);
    v->s = s;
    v->sock = -1;
    sweep_init(&v->owned);
}

void serve_reset(struct serve *v) {
    sweep_clear(&v->owned);
}
