#include "drivers/native.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/list.h"
#include "spawn/request.h"

#ifndef SO_PEERPIDFD /* Linux 6.5; older C libraries do not name it */
#define SO_PEERPIDFD 77
#endif

struct native {
    struct driver driver;
    uv_poll_t poll; /* berm-spawn's socket */
    int spawn_fd;
    int run_dir_fd;
    uint32_t seq;
    struct list unsent;
    struct list asked; /* sent, waiting for the reply */
    struct list places;
    bool lost; /* berm-spawn is gone */
    bool closing;
};

struct native_place {
    struct place place;
    struct native *native;
    struct list in_native;
    uv_poll_t poll; /* the guest's pidfd */
    int pid_fd;
    bool polling;
    bool closing;
    bool stopping;
};

struct request {
    struct list in_native;
    struct native_place *place; /* NULL once nobody waits for the answer any more */
    place_done *done;
    driver_done *discarded;
    void *user;
    size_t n_fds;
    int fds[SPAWN_MOUNTS_MAX + 2]; /* ours until they are sent */
    uint32_t size;
    union spawn_request message[]; /* only the first `size` bytes are there */
};

static struct native *of_driver(struct driver *d) {
    return container_of(d, struct native, driver);
}
static struct native_place *of_place(struct place *p) {
    return container_of(p, struct native_place, place);
}

/* --- requests --- */

static void watch(struct native *n);

static struct request *request_new(uint32_t kind, size_t size) {
    struct request *r = calloc(1, sizeof *r + size);
    if (!r)
        return NULL;
    list_init(&r->in_native);
    r->size = (uint32_t)size;
    r->message->head = (struct spawn_head){.version = SPAWN_VERSION, .kind = kind, .size = r->size};
    return r;
}

static void request_free(struct request *r) {
    list_remove(&r->in_native);
    fd_close_all(r->fds, r->n_fds);
    free(r);
}

static void request_send(struct native *n, struct request *r) {
    r->message->head.seq = ++n->seq;
    list_push_back(&n->unsent, &r->in_native);
    watch(n);
}

/* What berm-spawn refused, or that it is gone, as one of our errors. */
static void explain(const struct native *n, struct err *e, const struct spawn_reply *reply) {
    if (n->lost) {
        err_set(e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
        return;
    }
    enum err_code code = ERR_PLACE_FAILED;
    if (reply->step == STEP_FEATURE)
        code = ERR_UNSUPPORTED;
    else if (reply->step == STEP_EXISTS)
        code = ERR_SANDBOX_EXISTS;
    else if (reply->step == STEP_DISK_RESERVE)
        code = ERR_STORE_FULL;
    err_sys(e, code, reply->error, "berm-spawn, %s", spawn_step_name(reply->step));
}

static void place_free(struct native_place *p) {
    if (p->pid_fd >= 0)
        close(p->pid_fd);
    free(p);
}

static void on_poll_closed(uv_handle_t *handle) {
    place_free(handle->data);
}

/* Nobody hears of it again. Requests that name it go on without it. */
static void place_end(struct native_place *p) {
    if (p->closing)
        return;
    p->closing = true;
    list_remove(&p->in_native); /* now: the driver may be gone when the loop reports the close */
    struct list *lists[] = {&p->native->unsent, &p->native->asked};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        LIST_FOR_EACH(node, lists[i]) {
            struct request *r = container_of(node, struct request, in_native);
            if (r->place == p)
                r->place = NULL;
        }
    if (p->polling)
        uv_close((uv_handle_t *)&p->poll, on_poll_closed);
    else
        place_free(p);
}

static void fail_place(struct native_place *p, const struct err *e) {
    p->place.events->on_failed(&p->place, e);
    place_end(p);
}

static void forget_socket(struct native_place *p) {
    unlinkat(p->native->run_dir_fd, p->place.id, 0);
}

static void on_pid(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    struct native_place *p = handle->data;
    uv_poll_stop(handle);
    forget_socket(p);
    p->place.events->on_gone(&p->place);
    place_end(p);
}

/* From here on the pidfd tells when the guest ends. */
static int watch_pid(struct native_place *p, int pid_fd) {
    p->pid_fd = pid_fd;
    int r = uv_poll_init(p->native->driver.loop, &p->poll, pid_fd);
    if (r < 0)
        return r;
    p->poll.data = p;
    p->polling = true;
    return uv_poll_start(&p->poll, UV_READABLE, on_pid);
}

static void created(struct native_place *p, const struct spawn_reply *reply, int *fds,
                    size_t n_fds) {
    struct err e;
    if (reply->error == 0 && n_fds == 1) {
        int r = watch_pid(p, TAKE_FD(fds[0]));
        if (r == 0) {
            p->place.events->on_ready(&p->place);
            return;
        }
        err_sys(&e, ERR_PLACE_FAILED, -r, "watch the guest");
    } else if (reply->error == 0) {
        err_set(&e, ERR_PLACE_FAILED, "berm-spawn answered without the guest's pidfd");
    } else {
        explain(p->native, &e, reply);
    }
    forget_socket(p);
    fail_place(p, &e);
}

static void answered(const struct native *n, struct request *r, const struct spawn_reply *reply,
                     int *fds, size_t n_fds) {
    struct native_place *p = r->place;
    struct err e;
    struct place_answer answer = {.fds = fds, .n_fds = n_fds, .per_leaf = reply->fds_per_leaf};
    if (reply->error != 0) {
        explain(n, &e, reply);
        answer.e = &e;
    }
    const struct spawn_usage *u = &reply->usage;
    answer.usage = (struct place_usage){u->memory_bytes, u->memory_peak_bytes, u->cpu_us, u->pids,
                                        u->oom_kills};
    if (r->discarded)
        r->discarded(r->user, answer.e);
    if (p && r->done) {
        r->done(&p->place, &answer, r->user);
        if (reply->error == 0 && r->message->head.kind == SPAWN_EXEC_LEAF)
            for (size_t i = 0; i < n_fds; i++)
                fds[i] = -1; /* the asker's now */
    }
}

static void opened(struct native *n, const struct spawn_reply *reply) {
    static const struct {
        uint32_t theirs;
        unsigned ours;
    } features[] = {{SPAWN_HAS_LIMIT_MEMORY, DRIVER_HAS_LIMIT_MEMORY},
                    {SPAWN_HAS_LIMIT_CPU, DRIVER_HAS_LIMIT_CPU},
                    {SPAWN_HAS_LIMIT_PIDS, DRIVER_HAS_LIMIT_PIDS},
                    {SPAWN_HAS_LIMIT_DISK, DRIVER_HAS_LIMIT_DISK}};
    struct err e;
    if (reply->error != 0) {
        explain(n, &e, reply);
        n->driver.on_open(&n->driver, &e);
        return;
    }
    n->driver.features = DRIVER_HAS_PAUSE | DRIVER_HAS_LEAVES;
    for (size_t i = 0; i < COUNT_OF(features); i++)
        if (reply->features & features[i].theirs)
            n->driver.features |= features[i].ours;
    n->driver.on_open(&n->driver, NULL);
}

static void swept(struct native *n, const struct request *r, const struct spawn_reply *reply);

static void take_reply(struct native *n, const struct spawn_reply *reply, int *fds, size_t n_fds) {
    LIST_FOR_EACH(node, &n->asked) {
        struct request *r = container_of(node, struct request, in_native);
        if (r->message->head.seq != reply->head.seq)
            continue;
        list_remove(&r->in_native);
        if (reply->head.kind == SPAWN_HELLO)
            opened(n, reply);
        else if (reply->head.kind == SPAWN_CREATE && r->place)
            created(r->place, reply, fds, n_fds);
        else if (reply->head.kind == SPAWN_SWEEP)
            swept(n, r, reply);
        else
            answered(n, r, reply, fds, n_fds);
        request_free(r);
        return;
    }
}

/* berm-spawn is gone. Places it made live on; what was asked of it will not be answered. */
static void on_lost(struct native *n) {
    struct spawn_reply none = {.error = EPIPE, .step = STEP_REQUEST};
    struct err e;
    n->lost = true;
    uv_poll_stop(&n->poll);
    err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
    for (struct list *node;
         (node = list_pop_front(&n->asked)) || (node = list_pop_front(&n->unsent));) {
        struct request *r = container_of(node, struct request, in_native);
        if (r->message->head.kind == SPAWN_HELLO)
            n->driver.on_open(&n->driver, &e);
        else if (r->message->head.kind == SPAWN_CREATE && r->place)
            fail_place(r->place, &e);
        else if (r->message->head.kind == SPAWN_SWEEP)
            swept(n, r, &none);
        else
            answered(n, r, &none, NULL, 0);
        request_free(r);
    }
}

static void send_some(struct native *n) {
    while (!list_is_empty(&n->unsent)) {
        struct request *r = container_of(n->unsent.next, struct request, in_native);
        int sent = fd_send(n->spawn_fd, r->message, r->size, r->fds, r->n_fds);
        if (sent == -EAGAIN)
            return;
        if (sent < 0) {
            on_lost(n);
            return;
        }
        fd_close_all(r->fds, r->n_fds);
        r->n_fds = 0;
        list_remove(&r->in_native);
        list_push_back(&n->asked, &r->in_native);
    }
}

static void receive_some(struct native *n) {
    struct spawn_reply reply;
    int fds[FD_PASS_MAX];
    size_t n_fds = 0;
    while (!n->lost && !n->closing) {
        ssize_t got = fd_recv(n->spawn_fd, &reply, sizeof reply, fds, COUNT_OF(fds), &n_fds);
        if (got == -EAGAIN)
            return;
        if (got != sizeof reply || reply.head.version != SPAWN_VERSION) {
            if (got > 0)
                fd_close_all(fds, n_fds);
            on_lost(n);
            return;
        }
        take_reply(n, &reply, fds, n_fds);
        fd_close_all(fds, n_fds);
    }
}

static void on_socket(uv_poll_t *handle, int status, int events) {
    struct native *n = handle->data;
    if (status < 0) {
        on_lost(n);
        return;
    }
    if (events & UV_READABLE)
        receive_some(n);
    if (!n->lost && !n->closing && (events & UV_WRITABLE)) {
        send_some(n);
        if (!n->lost)
            watch(n);
    }
}

static void watch(struct native *n) {
    int events = UV_READABLE | (list_is_empty(&n->unsent) ? 0 : UV_WRITABLE);
    if (!n->lost && !n->closing)
        uv_poll_start(&n->poll, events, on_socket);
}

/* --- places --- */

static struct native_place *place_new(struct native *n, const char *id,
                                      const struct place_events *events, void *user,
                                      struct err *e) {
    struct native_place *p = calloc(1, sizeof *p);
    if (n->lost)
        err_set(e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
    else if (strlen(id) >= PLACE_ID_MAX)
        err_field(e, "id", "longer than %d characters", PLACE_ID_MAX - 1);
    else if (!p)
        err_set(e, ERR_LIMIT_REACHED, "out of memory");
    else {
        p->place.driver = &n->driver;
        p->place.events = events;
        p->place.user = user;
        snprintf(p->place.id, sizeof p->place.id, "%s", id);
        p->native = n;
        p->pid_fd = -1;
        list_push_back(&n->places, &p->in_native);
        return p;
    }
    free(p);
    return NULL;
}

/* The address of a control socket: through the directory's descriptor, so that its length does not
 * depend on where the state lives. */
static void control_address(const struct native *n, const char *id, struct sockaddr_un *ret_addr) {
    *ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret_addr->sun_path, sizeof ret_addr->sun_path, "/proc/self/fd/%d/%s", n->run_dir_fd,
             id);
}

/* Bound here and listened on by the guest, so that the peer's pidfd names the guest. */
static int control_socket(const struct native *n, const char *id, struct err *e) {
    struct sockaddr_un addr;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    control_address(n, id, &addr);
    unlinkat(n->run_dir_fd, id, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_sys(e, ERR_PLACE_FAILED, errno, "bind the control socket of %s", id);
    return TAKE_FD(fd);
}

static int take_fd(struct request *r, int borrowed, struct err *e) {
    int fd = fcntl(borrowed, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_sys(e, ERR_PLACE_FAILED, errno, "keep a descriptor");
    r->fds[r->n_fds++] = fd;
    return 0;
}

static int fill_mounts(struct request *r, const struct place_spec *spec, struct err *e) {
    struct spawn_create *c = &r->message->create;
    if (spec->n_mounts > SPAWN_MOUNTS_MAX)
        return err_field(e, "mounts", "at most %d", SPAWN_MOUNTS_MAX);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct place_mount *m = &spec->mounts[i];
        if (strlen(m->target) >= SPAWN_TARGET_MAX)
            return err_field(e, "mounts", "a target is longer than %d bytes", SPAWN_TARGET_MAX - 1);
        snprintf(c->mounts[i].target, sizeof c->mounts[i].target, "%s", m->target);
        c->mounts[i].flags = m->writable ? SPAWN_MOUNT_WRITABLE : 0;
        int failed = take_fd(r, m->dir_fd, e);
        if (failed < 0)
            return failed;
    }
    c->n_mounts = (uint32_t)spec->n_mounts;
    return 0;
}

static int fill_create(struct native *n, struct request *r, const struct place_spec *spec,
                       struct err *e) {
    static const char argv[] = "berm-guest";
    struct spawn_create *c = &r->message->create;
    const struct place_limits *l = &spec->limits;
    snprintf(c->id, sizeof c->id, "%s", spec->id);
    c->slot = spec->slot;
    c->profile = spec->profile == PLACE_ROOT ? SPAWN_PROFILE_ROOT : SPAWN_PROFILE_USER;
    c->root = spec->image_fd >= 0 ? SPAWN_ROOT_IMAGE : SPAWN_ROOT_HOST;
    c->layer = spec->layer == PLACE_MEMORY ? SPAWN_LAYER_MEMORY : SPAWN_LAYER_DISK;
    c->network = SPAWN_NETWORK_NONE;
    c->flags = SPAWN_CREATE_CONTROL;
    c->limits = (struct spawn_limits){l->memory_bytes, l->cpu_milli,   l->pids,
                                      l->disk_bytes,   l->disk_inodes, l->file_bytes};
    c->n_argv = 1;
    memcpy(c->text, argv, sizeof argv);
    int control = control_socket(n, spec->id, e);
    if (control < 0)
        return control;
    r->fds[r->n_fds++] = control;
    if (spec->image_fd >= 0 && take_fd(r, spec->image_fd, e) < 0)
        return -(int)e->code;
    return fill_mounts(r, spec, e);
}

static struct place *native_create(struct driver *d, const struct place_spec *spec,
                                   const struct place_events *events, void *user, struct err *e) {
    struct native *n = of_driver(d);
    if (spec->network != PLACE_NETWORK_NONE) {
        err_set(e, ERR_UNSUPPORTED, "the native driver has no network mode but none yet");
        return NULL;
    }
    struct native_place *p = place_new(n, spec->id, events, user, e);
    if (!p)
        return NULL;
    struct request *r = request_new(SPAWN_CREATE, sizeof(struct spawn_create));
    if (r && fill_create(n, r, spec, e) == 0) {
        r->place = p;
        request_send(n, r);
        return &p->place;
    }
    if (r)
        request_free(r);
    else
        err_set(e, ERR_LIMIT_REACHED, "out of memory");
    place_end(p);
    return NULL;
}

static int native_link(struct place *place, struct err *e) {
    struct sockaddr_un addr;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    control_address(of_place(place)->native, place->id, &addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_sys(e, ERR_GUEST_LOST, errno, "connect to the guest of %s", place->id);
    return TAKE_FD(fd);
}

/* The peer's pidfd is the guest's own, because the guest called listen. Before Linux 6.5 there is only
 * its pid; that it still belongs to the guest shows in the connection, which its end would have cut. */
static int peer_pidfd(int link) {
    int fd = -1;
    struct ucred cred;
    socklen_t fd_len = sizeof fd, cred_len = sizeof cred;
    if (getsockopt(link, SOL_SOCKET, SO_PEERPIDFD, &fd, &fd_len) == 0)
        return fd;
    if (errno != ENOPROTOOPT || getsockopt(link, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) < 0)
        return -errno;
    fd = pidfd_open(cred.pid, 0);
    struct pollfd p = {.fd = link, .events = POLLRDHUP};
    if (fd >= 0 && poll(&p, 1, 0) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -errno : -ESRCH;
}

static struct place *native_adopt(struct driver *d, const char *id,
                                  const struct place_events *events, void *user, struct err *e) {
    struct native_place *p = place_new(of_driver(d), id, events, user, e);
    if (!p)
        return NULL;
    AUTO_CLOSE int link = native_link(&p->place, e);
    if (link >= 0) {
        int r = peer_pidfd(link);
        if (r >= 0)
            r = watch_pid(p, r);
        if (r == 0)
            return &p->place;
        err_sys(e, ERR_GUEST_LOST, -r, "watch the guest of %s", id);
    }
    place_end(p);
    return NULL;
}

/* --- requests to a living place --- */

/* A request of a kind whose only content is the id, which every kind has at the same place. */
static struct request *request_for(struct native_place *p, uint32_t kind, size_t size,
                                   place_done *done, void *user) {
    struct request *r = request_new(kind, size);
    if (!r)
        return NULL;
    r->place = p;
    r->done = done;
    r->user = user;
    snprintf(r->message->by_id.id, SPAWN_ID_MAX, "%s", p->place.id);
    return r;
}

/* Sends it, or says at once that there is no memory for it or nobody to send it to. */
static void ask(struct native_place *p, struct request *r, place_done *done, void *user) {
    struct err e;
    if (r && !p->native->lost) {
        request_send(p->native, r);
        return;
    }
    if (r)
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
    else
        err_set(&e, ERR_LIMIT_REACHED, "out of memory");
    if (r)
        request_free(r);
    struct place_answer answer = {.e = &e};
    if (done)
        done(&p->place, &answer, user);
}

static void native_pause(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, request_for(p, SPAWN_FREEZE, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_resume(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, request_for(p, SPAWN_THAW, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_usage(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, request_for(p, SPAWN_USAGE, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_set_limits(struct place *place, const struct place_limits *l, place_done *done,
                              void *user) {
    struct native_place *p = of_place(place);
    struct request *r = request_for(p, SPAWN_LIMITS, sizeof(struct spawn_set_limits), done, user);
    if (r)
        r->message->set_limits.limits = (struct spawn_limits){
            .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
    ask(p, r, done, user);
}

static void native_leaves(struct place *place, uint32_t first, uint32_t count, place_done *done,
                          void *user) {
    struct native_place *p = of_place(place);
    struct request *r = request_for(p, SPAWN_EXEC_LEAF, sizeof(struct spawn_exec_leaf), done, user);
    if (r) {
        r->message->exec_leaf.first = first;
        r->message->exec_leaf.count = count;
    }
    ask(p, r, done, user);
}

static void native_kill_leaf(struct place *place, uint32_t leaf, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    struct request *r = request_for(p, SPAWN_KILL_LEAF, sizeof(struct spawn_kill_leaf), done, user);
    if (r)
        r->message->kill_leaf.leaf = leaf;
    ask(p, r, done, user);
}

static bool destroy(struct native *n, const char *id, uint32_t flags, driver_done *done,
                    void *user) {
    struct request *r = n->lost ? NULL : request_new(SPAWN_DESTROY, sizeof(struct spawn_destroy));
    if (!r)
        return false; /* the sweep at the next start finds what is left */
    snprintf(r->message->destroy.id, SPAWN_ID_MAX, "%s", id);
    r->message->destroy.flags = flags;
    r->discarded = done;
    r->user = user;
    request_send(n, r);
    return true;
}

/* on_gone comes from the pidfd, so that it is the guest's end and not berm-spawn's word for it. Without
 * berm-spawn the guest is ended by its pidfd; what is left of its cgroups is swept later. */
static void native_stop(struct place *place) {
    struct native_place *p = of_place(place);
    if (p->stopping || p->closing)
        return;
    p->stopping = true;
    if (p->native->lost && p->pid_fd >= 0)
        pidfd_send_signal(p->pid_fd, SIGKILL, NULL, 0);
    else
        destroy(p->native, p->place.id, 0, NULL, NULL);
}

static void native_discard(struct driver *d, const char *id, driver_done *done, void *user) {
    struct err e;
    if (destroy(of_driver(d), id, SPAWN_DESTROY_FILES, done, user) || !done)
        return;
    err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
    done(user, &e);
}

/* In parts: berm-spawn acts on the last one. */
static void native_sweep(struct driver *d, const char *const *ids, size_t n) {
    struct native *native = of_driver(d);
    struct err e;
    size_t done = 0;
    do {
        struct request *r =
            native->lost ? NULL : request_new(SPAWN_SWEEP, sizeof(struct spawn_sweep));
        if (!r) {
            err_set(&e, ERR_DRIVER_UNAVAILABLE, "nothing was swept");
            d->on_swept(d, &e);
            return;
        }
        struct spawn_sweep *part = &r->message->sweep;
        for (; done < n && part->n_ids < SPAWN_SWEEP_MAX; done++)
            snprintf(part->ids[part->n_ids++], SPAWN_ID_MAX, "%s", ids[done]);
        part->last = done == n;
        request_send(native, r);
    } while (done < n);
}

static void swept(struct native *n, const struct request *r, const struct spawn_reply *reply) {
    struct err e;
    if (reply->error != 0)
        explain(n, &e, reply);
    if (r->message->sweep.last || reply->error != 0)
        n->driver.on_swept(&n->driver, reply->error != 0 ? &e : NULL);
}

static void native_close_place(struct place *place) {
    place_end(of_place(place));
}

/* --- the driver --- */

static void on_closed(uv_handle_t *handle) {
    struct native *n = handle->data;
    void (*told)(struct driver * d) = n->driver.on_closed;
    close(n->spawn_fd);
    close(n->run_dir_fd);
    if (told)
        told(&n->driver);
    free(n);
}

static void native_close(struct driver *d) {
    struct native *n = of_driver(d);
    if (n->closing)
        return;
    n->closing = true;
    for (struct list *node;
         (node = list_pop_front(&n->asked)) || (node = list_pop_front(&n->unsent));)
        request_free(container_of(node, struct request, in_native));
    LIST_FOR_EACH(node, &n->places)
        place_end(container_of(node, struct native_place, in_native));
    uv_close((uv_handle_t *)&n->poll, on_closed);
}

static const struct driver_ops ops = {
    .name = "native",
    .close = native_close,
    .create = native_create,
    .adopt = native_adopt,
    .link = native_link,
    .stop = native_stop,
    .close_place = native_close_place,
    .discard = native_discard,
    .sweep = native_sweep,
    .pause = native_pause,
    .resume = native_resume,
    .set_limits = native_set_limits,
    .usage = native_usage,
    .leaves = native_leaves,
    .kill_leaf = native_kill_leaf,
};

struct driver *native_open(uv_loop_t *loop, int spawn_fd, int run_dir_fd,
                           void (*on_open)(struct driver *d, const struct err *e), void *user,
                           struct err *e) {
    struct native *n = calloc(1, sizeof *n);
    struct request *hello = request_new(SPAWN_HELLO, sizeof(struct spawn_hello));
    int r = n && hello ? fcntl(spawn_fd, F_SETFL, O_NONBLOCK) : -1;
    if (r == 0) {
        n->driver = (struct driver){.ops = &ops, .loop = loop, .on_open = on_open, .user = user};
        n->spawn_fd = spawn_fd;
        n->run_dir_fd = run_dir_fd;
        list_init(&n->unsent);
        list_init(&n->asked);
        list_init(&n->places);
        r = uv_poll_init(loop, &n->poll, spawn_fd);
    }
    if (r < 0) {
        err_set(e, ERR_DRIVER_UNAVAILABLE, "open the socket to berm-spawn");
        close(spawn_fd);
        close(run_dir_fd);
        free(hello);
        free(n);
        return NULL;
    }
    n->poll.data = n;
    request_send(n, hello);
    return &n->driver;
}
