/* native_instance — creates or adopts an instance, watches the guest's pidfd, and removes the
 * instance after its end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "drivers/native/native_impl.h"
#include "drivers/peer.h"

/* --- end --- */

static void native_instance_unwatch(struct native_instance *p) {
    if (p->pid_fd < 0)
        return;
    epoll_ctl(p->native->ends_fd, EPOLL_CTL_DEL, p->pid_fd, NULL);
    close(TAKE_FD(p->pid_fd));
}

static void native_instance_release(struct native_instance *p) {
    p->closing = true;
    list_remove(&p->in_native);
    spawn_link_forget(&p->native->link, p);
    native_instance_unwatch(p);
    if (p->found_link >= 0)
        close(TAKE_FD(p->found_link));
}

void native_instance_end(struct native_instance *p) {
    if (p->closing) /* called inside the instance's last callback, whose caller frees it */
        return;
    native_instance_release(p);
    free(p);
}

static void native_instance_fail(struct native_instance *p, const struct err *e) {
    native_instance_release(p);
    p->instance.events->on_failed(&p->instance, e);
    free(p);
}

static void native_instance_remove_socket(struct native_instance *p) {
    unlinkat(p->native->run_dir_fd, p->instance.id, 0);
}

static void native_instance_report_gone(struct native_instance *p) {
    if (!p->ended || (p->clearing && !p->native->link.lost))
        return;
    native_instance_remove_socket(p);
    native_instance_release(p);
    p->instance.events->on_gone(&p->instance);
    free(p);
}

static void on_cleared(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                       size_t n_fds) {
    (void)fds, (void)n_fds;
    struct native_instance *p = a->subject;
    p->clearing = false;
    p->is_clear = true;
    p->ended |= p->is_dormant && reply->error == 0; /* a dormant instance has no pidfd */
    native_instance_report_gone(p);
}

/* Removes the remains of the instance, so that its id can be used again at once. */
static void native_instance_clear(struct native_instance *p) {
    if (!p->clearing)
        p->clearing = native_destroy(p->native, p->instance.id, 0, on_cleared, p) != NULL;
}

/* The pidfd reports that the guest has exited. berm-spawn then reports that nothing is left of the
 * instance. */
static void native_instance_on_exit(struct native_instance *p) {
    native_instance_unwatch(p);
    p->ended = true;
    if (!p->is_clear)
        native_instance_clear(p);
    native_instance_report_gone(p);
}

/* Fetches one event at a time, because each callback may close any other instance. */
void native_on_ends(uv_poll_t *ends, int status, int events) {
    (void)status, (void)events;
    struct native *n = ends->data;
    struct epoll_event event;
    while (!n->link.closing && epoll_wait(n->ends_fd, &event, 1, 0) == 1)
        native_instance_on_exit(event.data.ptr);
}

/* Takes ownership of the pidfd and watches it for the exit of the guest. */
static int native_instance_watch_pid(struct native_instance *p, int pid_fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = p};
    p->pid_fd = pid_fd;
    return epoll_ctl(p->native->ends_fd, EPOLL_CTL_ADD, pid_fd, &event) < 0 ? -errno : 0;
}

static void on_created(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                       size_t n_fds) {
    struct native_instance *p = a->subject;
    struct err e;
    if (reply->error == 0 && n_fds == 1) {
        int r = native_instance_watch_pid(p, TAKE_FD(fds[0]));
        if (r == 0) {
            p->instance.events->on_ready(&p->instance);
            return;
        }
        err_sys(&e, ERR_PLACE_FAILED, -r, "watch the guest");
    } else if (reply->error == 0) {
        err_set(&e, ERR_PLACE_FAILED, "berm-spawn replied without the guest's pidfd");
    } else {
        native_explain(p->native, &e, reply);
    }
    if (reply->pid > 0) /* the guest runs, but bermd cannot notice its exit */
        (void)native_destroy(p->native, p->instance.id, 0, NULL, NULL);
    native_instance_remove_socket(p);
    native_instance_fail(p, &e);
}

/* --- create and adopt --- */

static struct native_instance *native_instance_new(struct native *n, const char *id,
                                                   const struct instance_events *events, void *user,
                                                   struct err *e) {
    struct native_instance *p = calloc(1, sizeof *p);
    if (n->link.lost)
        err_set(e, ERR_DRIVER_UNAVAILABLE, "berm-spawn has exited: restart bermd");
    else if (strlen(id) >= INSTANCE_ID_MAX)
        err_field(e, "id", "must have at most %d characters", INSTANCE_ID_MAX - 1);
    else if (!p)
        err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    else {
        p->instance.driver = &n->driver;
        p->instance.events = events;
        p->instance.user = user;
        snprintf(p->instance.id, sizeof p->instance.id, "%s", id);
        p->native = n;
        p->pid_fd = p->found_link = -1;
        list_push_back(&n->instances, &p->in_native);
        return p;
    }
    free(p);
    return NULL;
}

/* The address names the directory by its descriptor, so that its length does not depend on the path
 * of the run directory. */
static void native_control_address(const struct native *n, const char *id,
                                   struct sockaddr_un *ret_addr) {
    *ret_addr = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret_addr->sun_path, sizeof ret_addr->sun_path, "/proc/self/fd/%d/%s", n->run_dir_fd,
             id);
}

/* bermd binds the socket and the guest calls listen, so that the peer's pidfd is that of the
 * guest. */
static int native_control_socket(const struct native *n, const char *id, struct err *e) {
    struct sockaddr_un addr;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    native_control_address(n, id, &addr);
    unlinkat(n->run_dir_fd, id, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_sys(e, ERR_PLACE_FAILED, errno, "bind the control socket of %s", id);
    return TAKE_FD(fd);
}

static int native_dup_fd(struct spawn_ask *r, int borrowed, struct err *e) {
    int fd = fcntl(borrowed, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_sys(e, ERR_PLACE_FAILED, errno, "duplicate the descriptor of a mount");
    r->fds[r->n_fds++] = fd;
    return 0;
}

int native_fill_mounts(struct spawn_ask *r, struct spawn_mount *to, size_t max,
                       const struct instance_spec *spec, struct err *e) {
    if (spec->n_mounts > max)
        return err_field(e, "mounts", "must be at most %zu, got %zu", max, spec->n_mounts);
    for (size_t i = 0; i < spec->n_mounts; i++) {
        const struct instance_mount *m = &spec->mounts[i];
        if (strlen(m->target) >= SPAWN_TARGET_MAX)
            return err_field(e, "mounts", "a target must have at most %d bytes",
                             SPAWN_TARGET_MAX - 1);
        snprintf(to[i].target, sizeof to[i].target, "%s", m->target);
        to[i].flags = m->writable     ? SPAWN_MOUNT_WRITABLE
                      : m->is_public  ? SPAWN_MOUNT_PUBLIC
                      : m->is_layered ? SPAWN_MOUNT_LAYERED
                                      : 0;
        int failed = native_dup_fd(r, m->dir_fd, e);
        if (failed < 0)
            return failed;
    }
    return 0;
}

static int native_fill_create(struct native *n, struct spawn_ask *r,
                              const struct instance_spec *spec, struct err *e) {
    static const char argv[] = "berm-guest";
    struct spawn_create *c = &r->message->create;
    const struct instance_limits *l = &spec->limits;
    snprintf(c->id, sizeof c->id, "%s", spec->id);
    c->slot = (uint32_t)spec->slot;
    c->profile = spec->profile == INSTANCE_ROOT ? SPAWN_PROFILE_ROOT : SPAWN_PROFILE_USER;
    c->root = SPAWN_ROOT_HOST;
    c->layer = spec->layer == INSTANCE_MEMORY ? SPAWN_LAYER_MEMORY : SPAWN_LAYER_DISK;
    c->network = SPAWN_NETWORK_NONE;
    c->flags = SPAWN_CREATE_CONTROL | (spec->is_parked ? SPAWN_CREATE_PARKED : 0);
    snprintf(c->hostname, sizeof c->hostname, "%s", spec->hostname ? spec->hostname : "");
    c->limits = (struct spawn_limits){l->memory_bytes, l->cpu_milli,   l->pids,
                                      l->disk_bytes,   l->disk_inodes, l->file_bytes};
    c->n_argv = 1;
    memcpy(c->text, argv, sizeof argv);
    int control = native_control_socket(n, spec->id, e);
    if (control < 0)
        return control;
    r->fds[r->n_fds++] = control;
    c->n_mounts = (uint32_t)spec->n_mounts;
    return native_fill_mounts(r, c->mounts, COUNT_OF(c->mounts), spec, e);
}

struct instance *native_create(struct driver *d, const struct instance_spec *spec,
                               const struct instance_events *events, void *user, struct err *e) {
    struct native *n = native_of(d);
    if (spec->network != INSTANCE_NETWORK_NONE) {
        err_set(e, ERR_UNSUPPORTED, "the native driver supports only network mode NONE");
        return NULL;
    }
    struct native_instance *p = native_instance_new(n, spec->id, events, user, e);
    if (!p)
        return NULL;
    struct spawn_ask *r = spawn_ask_new(SPAWN_CREATE, sizeof(struct spawn_create), on_created, p);
    if (r && native_fill_create(n, r, spec, e) == 0) {
        spawn_link_send(&n->link, r);
        return &p->instance;
    }
    if (r)
        spawn_ask_free(r);
    else
        err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    native_instance_end(p);
    return NULL;
}

static int native_instance_connect(const struct native_instance *p, struct err *e) {
    struct sockaddr_un addr;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    native_control_address(p->native, p->instance.id, &addr);
    if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
        return err_sys(e, ERR_GUEST_LOST, errno, "connect to the guest of %s", p->instance.id);
    return TAKE_FD(fd);
}

/* Connects to the guest and watches its pidfd. The first instance_connect returns this
 * connection. */
static int native_instance_find(struct native_instance *p, struct err *e) {
    AUTO_CLOSE int link = native_instance_connect(p, e);
    if (link < 0)
        return link;
    int r = peer_pidfd(link);
    if (r >= 0)
        r = native_instance_watch_pid(p, r);
    if (r < 0) {
        native_instance_unwatch(p);
        return err_sys(e, ERR_GUEST_LOST, -r, "watch the guest of %s", p->instance.id);
    }
    p->found_link = TAKE_FD(link);
    return 0;
}

/* Returns whether the error means that the guest has exited, and not that a resource is short. */
static bool native_means_exit(const struct err *e) {
    return e->sys == ECONNREFUSED || e->sys == ENOENT || e->sys == ESRCH;
}

/* Connects to a dormant guest. If the guest has exited, a readable eventfd replaces its pidfd, so
 * that the loop reports the exit like any other. */
static int native_instance_wake(struct native_instance *p, struct err *e) {
    int r = p->is_dormant ? native_instance_find(p, e) : 0;
    if (r == 0)
        p->is_dormant = false;
    else if (native_means_exit(e)) {
        int ended = eventfd(1, EFD_CLOEXEC);
        p->is_dormant = ended < 0 || native_instance_watch_pid(p, ended) < 0;
        if (p->is_dormant)
            native_instance_unwatch(p);
    }
    return r;
}

int native_watch_exit(struct instance *instance) {
    struct err e;
    int r = native_instance_wake(native_instance_of(instance), &e);
    return native_instance_of(instance)->is_dormant ? r : 0;
}

int native_connect(struct instance *instance, struct err *e) {
    struct native_instance *p = native_instance_of(instance);
    int r = native_instance_wake(p, e);
    if (r < 0)
        return r;
    return p->found_link >= 0 ? TAKE_FD(p->found_link) : native_instance_connect(p, e);
}

struct instance *native_adopt(struct driver *d, const char *id,
                              const struct instance_events *events, void *user, struct err *e) {
    struct native *n = native_of(d);
    struct native_instance *p = native_instance_new(n, id, events, user, e);
    if (!p)
        return NULL;
    if (!n->has_listed)
        n->listeners = listeners_read(n->run_dir_fd);
    n->has_listed = true;
    p->is_dormant = listeners_has(n->listeners, n->run_dir_fd, id);
    if (p->is_dormant || native_instance_find(p, e) == 0)
        return &p->instance;
    native_instance_end(p);
    return NULL;
}

/* --- stop and close --- */

/* Without berm-spawn, bermd kills the guest through its pidfd; a later sweep removes the
 * cgroups. */
void native_stop(struct instance *instance) {
    struct native_instance *p = native_instance_of(instance);
    if (p->closing)
        return;
    (void)native_watch_exit(instance); /* on failure, on_cleared reports the exit */
    if (p->native->link.lost && p->pid_fd >= 0)
        pidfd_send_signal(p->pid_fd, SIGKILL, NULL, 0);
    else
        native_instance_clear(p);
}

void native_close_instance(struct instance *instance) {
    native_instance_end(native_instance_of(instance));
}
