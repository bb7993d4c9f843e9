#include "drivers/native.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "drivers/spawn_link.h"

#ifndef SO_PEERPIDFD /* Linux 6.5; older C libraries do not name it */
#define SO_PEERPIDFD 77
#endif

struct native {
    struct driver driver;
    struct spawn_link link;
    int run_dir_fd;
    struct list places;
};

struct native_place {
    struct place place;
    struct native *native;
    struct list in_native;
    uv_poll_t poll; /* the guest's pidfd */
    int pid_fd;
    int found_link; /* the connection it was adopted by, for the first place_link; or -1 */
    bool polling;
    bool closing;
    bool ended;    /* the guest has */
    bool clearing; /* berm-spawn was asked to end it and clear it away */
    bool is_clear;
};

static struct native *of_driver(struct driver *d) {
    return container_of(d, struct native, driver);
}
static struct native_place *of_place(struct place *p) {
    return container_of(p, struct native_place, place);
}

/* What berm-spawn refused, or that it is gone, as one of our errors. */
static void explain(const struct native *n, struct err *e, const struct spawn_reply *reply) {
    if (n->link.lost) {
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

/* --- places: their life --- */

static void place_free(struct native_place *p) {
    if (p->pid_fd >= 0)
        close(p->pid_fd);
    if (p->found_link >= 0)
        close(p->found_link);
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
    spawn_link_forget(&p->native->link, p);
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

static void report_gone(struct native_place *p) {
    if (!p->ended || (p->clearing && !p->native->link.lost))
        return;
    forget_socket(p);
    p->place.events->on_gone(&p->place);
    place_end(p);
}

/* NULL: berm-spawn is gone, and the sweep at the next start finds what is left. */
static struct spawn_ask *destroy(struct native *n, const char *id, uint32_t flags,
                                 spawn_on_reply *on_reply, void *about) {
    struct spawn_ask *a =
        n->link.lost ? NULL
                     : spawn_ask_new(SPAWN_DESTROY, sizeof(struct spawn_destroy), on_reply, about);
    if (!a)
        return NULL;
    snprintf(a->message->destroy.id, SPAWN_ID_MAX, "%s", id);
    a->message->destroy.flags = flags;
    spawn_link_send(&n->link, a);
    return a;
}

static void on_cleared(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                       size_t n_fds) {
    (void)reply, (void)fds, (void)n_fds;
    struct native_place *p = a->about;
    p->clearing = false;
    p->is_clear = true;
    report_gone(p);
}

/* What is left of it goes, so that its id can be used again at once. */
static void clear(struct native_place *p) {
    if (!p->clearing)
        p->clearing = destroy(p->native, p->place.id, 0, on_cleared, p) != NULL;
}

/* That it has ended is the pidfd's word, not berm-spawn's; that nothing is left of it is berm-spawn's. */
static void on_pid(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    struct native_place *p = handle->data;
    uv_poll_stop(handle);
    p->ended = true;
    if (!p->is_clear)
        clear(p);
    report_gone(p);
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

static void on_created(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                       size_t n_fds) {
    struct native_place *p = a->about;
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

/* --- places: making and finding them --- */

static struct native_place *place_new(struct native *n, const char *id,
                                      const struct place_events *events, void *user,
                                      struct err *e) {
    struct native_place *p = calloc(1, sizeof *p);
    if (n->link.lost)
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
        p->pid_fd = p->found_link = -1;
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

static int take_fd(struct spawn_ask *r, int borrowed, struct err *e) {
    int fd = fcntl(borrowed, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_sys(e, ERR_PLACE_FAILED, errno, "keep a descriptor");
    r->fds[r->n_fds++] = fd;
    return 0;
}

static int fill_mounts(struct spawn_ask *r, const struct place_spec *spec, struct err *e) {
    struct spawn_create *c = &r->message->create;
    if (spec->n_mounts > SPAWN_MOUNTS_MAX)
        return err_field(e, "mounts", "at most %d", SPAWN_MOUNTS_MAX);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct place_mount *m = &spec->mounts[i];
        if (strlen(m->target) >= SPAWN_TARGET_MAX)
            return err_field(e, "mounts", "a target is longer than %d bytes", SPAWN_TARGET_MAX - 1);
        snprintf(c->mounts[i].target, sizeof c->mounts[i].target, "%s", m->target);
        c->mounts[i].flags = m->writable    ? SPAWN_MOUNT_WRITABLE
                             : m->is_public ? SPAWN_MOUNT_PUBLIC
                                            : 0;
        int failed = take_fd(r, m->dir_fd, e);
        if (failed < 0)
            return failed;
    }
    c->n_mounts = (uint32_t)spec->n_mounts;
    return 0;
}

static int fill_create(struct native *n, struct spawn_ask *r, const struct place_spec *spec,
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
    struct spawn_ask *r = spawn_ask_new(SPAWN_CREATE, sizeof(struct spawn_create), on_created, p);
    if (r && fill_create(n, r, spec, e) == 0) {
        spawn_link_send(&n->link, r);
        return &p->place;
    }
    if (r)
        spawn_ask_free(r);
    else
        err_set(e, ERR_LIMIT_REACHED, "out of memory");
    place_end(p);
    return NULL;
}

static int native_link(struct place *place, struct err *e) {
    struct sockaddr_un addr;
    if (of_place(place)->found_link >= 0)
        return TAKE_FD(of_place(place)->found_link);
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
        if (r == 0) {
            p->found_link = TAKE_FD(link);
            return &p->place;
        }
        err_sys(e, ERR_GUEST_LOST, -r, "watch the guest of %s", id);
    }
    place_end(p);
    return NULL;
}

/* --- requests to a living place --- */

static void on_answered(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                        size_t n_fds) {
    struct native_place *p = a->about;
    const struct spawn_usage *u = &reply->usage;
    struct err e;
    struct place_answer answer = {
        .usage = {u->memory_bytes, u->memory_peak_bytes, u->cpu_us, u->pids, u->oom_kills},
        .fds = fds,
        .n_fds = n_fds,
        .per_leaf = reply->fds_per_leaf,
    };
    if (reply->error != 0) {
        explain(p->native, &e, reply);
        answer.e = &e;
    }
    ((place_done *)a->done)(&p->place, &answer, a->user);
    for (size_t i = 0; !answer.e && i < n_fds; i++)
        fds[i] = -1; /* the asker's now */
}

/* The kinds whose first content is the id have it at the same place. */
static struct spawn_ask *ask_new(struct native_place *p, uint32_t kind, size_t size,
                                 place_done *done, void *user) {
    struct spawn_ask *a = spawn_ask_new(kind, size, done ? on_answered : NULL, p);
    if (!a)
        return NULL;
    a->done = (void (*)(void))done;
    a->user = user;
    snprintf(a->message->by_id.id, SPAWN_ID_MAX, "%s", p->place.id);
    return a;
}

/* Sends it, or says at once that there is no memory for it or nobody to send it to. */
static void ask(struct native_place *p, struct spawn_ask *a, place_done *done, void *user) {
    struct err e;
    if (a && !p->native->link.lost) {
        spawn_link_send(&p->native->link, a);
        return;
    }
    if (a)
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
    else
        err_set(&e, ERR_LIMIT_REACHED, "out of memory");
    if (a)
        spawn_ask_free(a);
    struct place_answer answer = {.e = &e};
    if (done)
        done(&p->place, &answer, user);
}

static void native_pause(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, ask_new(p, SPAWN_FREEZE, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_resume(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, ask_new(p, SPAWN_THAW, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_usage(struct place *place, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    ask(p, ask_new(p, SPAWN_USAGE, sizeof(struct spawn_by_id), done, user), done, user);
}

static void native_set_limits(struct place *place, const struct place_limits *l, place_done *done,
                              void *user) {
    struct native_place *p = of_place(place);
    struct spawn_ask *a = ask_new(p, SPAWN_LIMITS, sizeof(struct spawn_set_limits), done, user);
    if (a)
        a->message->set_limits.limits = (struct spawn_limits){
            .memory_bytes = l->memory_bytes, .cpu_milli = l->cpu_milli, .pids = l->pids};
    ask(p, a, done, user);
}

static void native_leaves(struct place *place, uint32_t first, uint32_t count, place_done *done,
                          void *user) {
    struct native_place *p = of_place(place);
    struct spawn_ask *a = ask_new(p, SPAWN_EXEC_LEAF, sizeof(struct spawn_exec_leaf), done, user);
    if (a) {
        a->message->exec_leaf.first = first;
        a->message->exec_leaf.count = count;
    }
    ask(p, a, done, user);
}

static void native_kill_leaf(struct place *place, uint32_t leaf, place_done *done, void *user) {
    struct native_place *p = of_place(place);
    struct spawn_ask *a = ask_new(p, SPAWN_KILL_LEAF, sizeof(struct spawn_kill_leaf), done, user);
    if (a)
        a->message->kill_leaf.leaf = leaf;
    ask(p, a, done, user);
}

/* Without berm-spawn the guest is ended by its pidfd; what is left of its cgroups is swept later. */
static void native_stop(struct place *place) {
    struct native_place *p = of_place(place);
    if (p->closing)
        return;
    if (p->native->link.lost && p->pid_fd >= 0)
        pidfd_send_signal(p->pid_fd, SIGKILL, NULL, 0);
    else
        clear(p);
}

static void on_discarded(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                         size_t n_fds) {
    (void)fds, (void)n_fds;
    struct err e;
    if (reply->error != 0)
        explain(a->about, &e, reply);
    ((driver_done *)a->done)(a->user, reply->error != 0 ? &e : NULL);
}

static void native_discard(struct driver *d, const char *id, bool with_files, driver_done *done,
                           void *user) {
    struct native *n = of_driver(d);
    struct err e;
    unlinkat(n->run_dir_fd, id, 0); /* of a guest that ended while no daemon looked */
    struct spawn_ask *a =
        destroy(n, id, with_files ? SPAWN_DESTROY_FILES : 0, done ? on_discarded : NULL, n);
    if (a) {
        a->done = (void (*)(void))done;
        a->user = user;
    } else if (done) {
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn is gone");
        done(user, &e);
    }
}

static void on_swept(struct spawn_ask *a, const struct spawn_reply *reply, int *fds, size_t n_fds) {
    (void)fds, (void)n_fds;
    struct native *n = a->about;
    struct err e;
    if (reply->error != 0)
        explain(n, &e, reply);
    if (a->message->sweep.last || reply->error != 0)
        n->driver.on_swept(&n->driver, reply->error != 0 ? &e : NULL);
}

static bool is_among(const char *name, const char *const *ids, size_t n_ids) {
    for (size_t i = 0; i < n_ids; i++)
        if (strcmp(ids[i], name) == 0)
            return true;
    return false;
}

/* Control sockets of places that no record names. */
static void sweep_sockets(const struct native *n, const char *const *ids, size_t n_ids) {
    int copy = openat(n->run_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *d; list && (d = readdir(list));)
        if (d->d_type == DT_SOCK && !is_among(d->d_name, ids, n_ids))
            unlinkat(n->run_dir_fd, d->d_name, 0);
    if (list)
        closedir(list);
}

/* In parts: berm-spawn acts on the last one. */
static void native_sweep(struct driver *d, const char *const *ids, size_t n_ids) {
    struct native *n = of_driver(d);
    struct err e;
    size_t done = 0;
    sweep_sockets(n, ids, n_ids);
    do {
        struct spawn_ask *a =
            n->link.lost ? NULL
                         : spawn_ask_new(SPAWN_SWEEP, sizeof(struct spawn_sweep), on_swept, n);
        if (!a) {
            err_set(&e, ERR_DRIVER_UNAVAILABLE, "nothing was swept");
            d->on_swept(d, &e);
            return;
        }
        struct spawn_sweep *part = &a->message->sweep;
        for (; done < n_ids && part->n_ids < SPAWN_SWEEP_MAX; done++)
            snprintf(part->ids[part->n_ids++], SPAWN_ID_MAX, "%s", ids[done]);
        part->last = done == n_ids;
        spawn_link_send(&n->link, a);
    } while (done < n_ids);
}

static void native_close_place(struct place *place) {
    place_end(of_place(place));
}

/* --- the driver --- */

static void on_hello(struct spawn_ask *a, const struct spawn_reply *reply, int *fds, size_t n_fds) {
    (void)fds, (void)n_fds;
    static const struct {
        uint32_t theirs;
        unsigned ours;
    } features[] = {{SPAWN_HAS_LIMIT_MEMORY, DRIVER_HAS_LIMIT_MEMORY},
                    {SPAWN_HAS_LIMIT_CPU, DRIVER_HAS_LIMIT_CPU},
                    {SPAWN_HAS_LIMIT_PIDS, DRIVER_HAS_LIMIT_PIDS},
                    {SPAWN_HAS_LIMIT_DISK, DRIVER_HAS_LIMIT_DISK}};
    struct native *n = a->about;
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

static void on_link_lost(struct spawn_link *l) {
    struct native *n = container_of(l, struct native, link);
    if (n->driver.on_lost)
        n->driver.on_lost(&n->driver);
}

static void on_link_closed(struct spawn_link *l) {
    struct native *n = container_of(l, struct native, link);
    void (*told)(struct driver * d) = n->driver.on_closed;
    close(n->run_dir_fd);
    if (told)
        told(&n->driver);
    free(n);
}

static void native_close(struct driver *d) {
    struct native *n = of_driver(d);
    if (n->link.closing)
        return;
    LIST_FOR_EACH(node, &n->places)
        place_end(container_of(node, struct native_place, in_native));
    spawn_link_close(&n->link);
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
    struct spawn_ask *hello =
        n ? spawn_ask_new(SPAWN_HELLO, sizeof(struct spawn_hello), on_hello, n) : NULL;
    if (!hello)
        close(spawn_fd);
    if (!hello || spawn_link_open(&n->link, loop, spawn_fd, on_link_lost, on_link_closed) < 0) {
        err_set(e, ERR_DRIVER_UNAVAILABLE, "open the socket to berm-spawn");
        close(run_dir_fd);
        free(hello);
        free(n);
        return NULL;
    }
    n->driver = (struct driver){.ops = &ops, .loop = loop, .on_open = on_open, .user = user};
    n->run_dir_fd = run_dir_fd;
    list_init(&n->places);
    spawn_link_send(&n->link, hello);
    return &n->driver;
}
