#include "drivers/native/native_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"

void native_explain(const struct native *n, struct err *e, const struct spawn_reply *reply) {
    if (n->link.lost) {
        err_set(e, ERR_DRIVER_UNAVAILABLE, "berm-spawn has exited: restart bermd");
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

struct spawn_ask *native_destroy(struct native *n, const char *id, uint32_t flags,
                                 spawn_on_reply *on_reply, void *subject) {
    struct spawn_ask *a = n->link.lost ? NULL
                                       : spawn_ask_new(SPAWN_DESTROY, sizeof(struct spawn_destroy),
                                                       on_reply, subject);
    if (!a)
        return NULL;
    snprintf(a->message->destroy.id, SPAWN_ID_MAX, "%s", id);
    a->message->destroy.flags = flags;
    spawn_link_send(&n->link, a);
    return a;
}

/* --- discard and sweep --- */

static void on_discarded(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                         size_t n_fds) {
    (void)fds, (void)n_fds;
    struct err e;
    if (reply->error != 0)
        native_explain(a->subject, &e, reply);
    ((driver_done *)a->done)(a->user, reply->error != 0 ? &e : NULL);
}

static void native_discard(struct driver *d, const char *id, bool with_files, driver_done *done,
                           void *user) {
    struct native *n = native_of(d);
    struct err e;
    unlinkat(n->run_dir_fd, id, 0); /* a guest that exited while no daemon ran left its socket */
    struct spawn_ask *a =
        native_destroy(n, id, with_files ? SPAWN_DESTROY_FILES : 0, done ? on_discarded : NULL, n);
    if (a) {
        a->done = (void (*)(void))done;
        a->user = user;
    } else if (done) {
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-spawn has exited: restart bermd");
        done(user, &e);
    }
}

static void on_swept(struct spawn_ask *a, const struct spawn_reply *reply, int *fds, size_t n_fds) {
    (void)fds, (void)n_fds;
    struct err e;
    if (reply->error != 0)
        native_explain(a->subject, &e, reply);
    if (a->message->sweep.last || reply->error != 0)
        ((driver_done *)a->done)(a->user, reply->error != 0 ? &e : NULL);
}

static int native_compare_ids(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Removes control sockets of instances that no record names. */
static void native_sweep_sockets(const struct native *n, const char *const *ids, size_t n_ids) {
    AUTO_FREE const char **sorted = malloc((n_ids + 1) * sizeof *sorted);
    int copy = openat(n->run_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    if (sorted && n_ids > 0) {
        memcpy(sorted, ids, n_ids * sizeof *sorted);
        qsort(sorted, n_ids, sizeof *sorted, native_compare_ids);
    }
    for (struct dirent *d; sorted && list && (d = readdir(list));) {
        const char *name = d->d_name;
        if (d->d_type == DT_SOCK &&
            !bsearch(&name, sorted, n_ids, sizeof *sorted, native_compare_ids))
            unlinkat(n->run_dir_fd, name, 0);
    }
    if (list)
        closedir(list);
}

/* Sends the ids in several messages. berm-spawn sweeps after the last one. */
static void native_sweep(struct driver *d, const char *const *ids, size_t n_ids, driver_done *done,
                         void *user) {
    struct native *n = native_of(d);
    struct err e;
    size_t sent = 0;
    listeners_free(TAKE(n->listeners)); /* only adoption needs the snapshot */
    native_sweep_sockets(n, ids, n_ids);
    do {
        struct spawn_ask *a =
            n->link.lost ? NULL
                         : spawn_ask_new(SPAWN_SWEEP, sizeof(struct spawn_sweep), on_swept, n);
        if (!a) {
            err_set(&e, ERR_DRIVER_UNAVAILABLE,
                    "cannot sweep: berm-spawn has exited, or out of memory");
            done(user, &e);
            return;
        }
        struct spawn_sweep *part = &a->message->sweep;
        for (; sent < n_ids && part->n_ids < SPAWN_SWEEP_MAX; sent++)
            snprintf(part->ids[part->n_ids++], SPAWN_ID_MAX, "%s", ids[sent]);
        part->last = sent == n_ids;
        a->done = (void (*)(void))done;
        a->user = user;
        spawn_link_send(&n->link, a);
    } while (sent < n_ids);
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
    struct native *n = a->subject;
    struct err e;
    if (reply->error != 0) {
        native_explain(n, &e, reply);
        n->driver.on_open(&n->driver, &e);
        return;
    }
    n->driver.features = DRIVER_HAS_MOUNTS | DRIVER_HAS_LAYER_MEMORY | DRIVER_HAS_PROFILE_ROOT;
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

static void on_ends_closed(uv_handle_t *handle) {
    struct native *n = handle->data;
    void (*notify)(struct driver * d) = n->driver.on_closed;
    listeners_free(n->listeners);
    close(n->ends_fd);
    close(n->run_dir_fd);
    free(n->slots);
    if (notify)
        notify(&n->driver);
    free(n);
}

static void on_link_closed(struct spawn_link *l) {
    uv_close((uv_handle_t *)&container_of(l, struct native, link)->ends, on_ends_closed);
}

static void native_close(struct driver *d) {
    struct native *n = native_of(d);
    if (n->link.closing)
        return;
    LIST_FOR_EACH(node, &n->instances)
        native_instance_end(container_of(node, struct native_instance, in_native));
    spawn_link_close(&n->link);
}

static bool native_is_idle(const struct driver *d) {
    const struct native *n = container_of(d, struct native, driver);
    return list_is_empty(&n->link.asked) && list_is_empty(&n->link.unsent);
}

static const struct driver_ops ops = {
    .name = "native",
    .close = native_close,
    .create = native_create,
    .adopt = native_adopt,
    .connect = native_connect,
    .stop = native_stop,
    .close_instance = native_close_instance,
    .discard = native_discard,
    .sweep = native_sweep,
};
static const struct driver_pause_ops pause_ops = {native_pause, native_resume};
static const struct driver_usage_ops usage_ops = {native_measure};
static const struct driver_limits_ops limits_ops = {native_set_limits};
static const struct driver_exec_cgroup_ops exec_cgroup_ops = {
    native_make_exec_cgroups, native_kill_exec_cgroup, native_read_exec_cgroup};
static const struct driver_parking_ops parking_ops = {native_claim, native_is_idle};
static const struct driver_dormant_ops dormant_ops = {native_watch_exit};

/* On failure (-errno) nothing stays open. */
static int native_watch_ends(struct native *n, uv_loop_t *loop) {
    n->ends_fd = epoll_create1(EPOLL_CLOEXEC);
    int r = n->ends_fd < 0 ? -errno : uv_poll_init(loop, &n->ends, n->ends_fd);
    if (r < 0) {
        fd_close_all(&n->ends_fd, 1);
        return r;
    }
    n->ends.data = n;
    return uv_poll_start(&n->ends, UV_READABLE, native_on_ends);
}

struct driver *native_open(uv_loop_t *loop, int spawn_fd, int run_dir_fd,
                           void (*on_open)(struct driver *d, const struct err *e), void *user,
                           struct err *e) {
    struct native *n = calloc(1, sizeof *n);
    struct spawn_ask *hello =
        n ? spawn_ask_new(SPAWN_HELLO, sizeof(struct spawn_hello), on_hello, n) : NULL;
    err_set(e, ERR_DRIVER_UNAVAILABLE, "open the socket to berm-spawn");
    if (!hello || native_slots_init(n) < 0 || native_watch_ends(n, loop) < 0) {
        close(spawn_fd);
        close(run_dir_fd);
        free(hello);
        if (n)
            free(n->slots);
        free(n);
        return NULL;
    }
    n->run_dir_fd = run_dir_fd;
    list_init(&n->instances);
    if (spawn_link_open(&n->link, loop, spawn_fd, on_link_lost, on_link_closed) < 0) {
        free(hello);
        uv_close((uv_handle_t *)&n->ends, on_ends_closed);
        return NULL;
    }
    n->driver = (struct driver){.ops = &ops,
                                .pause = &pause_ops,
                                .usage = &usage_ops,
                                .limits = &limits_ops,
                                .exec_cgroups = &exec_cgroup_ops,
                                .parking = &parking_ops,
                                .dormant = &dormant_ops,
                                .slots = &native_slot_ops,
                                .loop = loop,
                                .on_open = on_open,
                                .user = user};
    spawn_link_send(&n->link, hello);
    return &n->driver;
}
