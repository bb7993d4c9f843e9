#include "drivers/plain/plain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/fd.h"
#include "drivers/peer.h"
#include "drivers/plain/plain_impl.h"

struct plain_instance {
    struct instance instance;
    struct plain *plain;
    struct list in_plain;
    int pid_fd;     /* of the guest */
    int found_link; /* connection that found the guest, until instance_connect takes it; or -1 */
    bool is_new;    /* the loop has not called on_ready yet */
    bool closing;
};

/* A finished request; the loop calls `done`. */
struct plain_answer {
    struct list in_plain;
    driver_done *done;
    void *user;
};

static struct plain *plain_of(struct driver *d) {
    return container_of(d, struct plain, driver);
}

/* --- instances --- */

static void plain_release(struct plain_instance *it) {
    it->closing = true;
    list_remove(&it->in_plain);
    if (it->pid_fd >= 0) {
        epoll_ctl(it->plain->exits_fd, EPOLL_CTL_DEL, it->pid_fd, NULL);
        close(it->pid_fd);
    }
    if (it->found_link >= 0)
        close(it->found_link);
}

static void plain_close_instance(struct instance *instance) {
    struct plain_instance *it = container_of(instance, struct plain_instance, instance);
    if (it->closing) /* called inside the instance's last callback, whose caller frees it */
        return;
    plain_release(it);
    free(it);
}

/* Fetches one event at a time, because each callback may close any other instance. */
static void on_exits(uv_poll_t *exits, int status, int events) {
    (void)status, (void)events;
    struct plain *p = exits->data;
    struct epoll_event event;
    while (!p->closing && epoll_wait(p->exits_fd, &event, 1, 0) == 1) {
        struct plain_instance *it = event.data.ptr;
        plain_release(it);
        plain_process_remove(p, it->instance.id, false);
        it->instance.events->on_gone(&it->instance);
        free(it);
    }
}

/* Takes ownership of the pidfd and the connection, even on failure. */
static struct plain_instance *plain_instance_new(struct plain *p, const char *id, int pid_fd,
                                                 int link, const struct instance_events *events,
                                                 void *user, struct err *e) {
    struct plain_instance *it = calloc(1, sizeof *it);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = it};
    if (!it || epoll_ctl(p->exits_fd, EPOLL_CTL_ADD, pid_fd, &event) < 0) {
        err_set(e, ERR_LIMIT_REACHED, "watch the guest of %s", id);
        close(pid_fd);
        if (link >= 0)
            close(link);
        free(it);
        return NULL;
    }
    it->instance = (struct instance){
        .driver = &p->driver, .events = events, .user = user, .is_bytes_only = p->is_bytes_only};
    snprintf(it->instance.id, sizeof it->instance.id, "%s", id);
    it->plain = p;
    it->pid_fd = pid_fd;
    it->found_link = link;
    list_push_back(&p->instances, &it->in_plain);
    return it;
}

static struct instance *plain_create(struct driver *d, const struct instance_spec *spec,
                                     const struct instance_events *events, void *user,
                                     struct err *e) {
    struct plain *p = plain_of(d);
    if (strlen(spec->id) >= INSTANCE_ID_MAX) {
        err_field(e, "id", "must have at most %d characters", INSTANCE_ID_MAX - 1);
        return NULL;
    }
    int pid_fd = plain_process_start(p, spec->id, e);
    struct plain_instance *it =
        pid_fd < 0 ? NULL : plain_instance_new(p, spec->id, pid_fd, -1, events, user, e);
    if (!it)
        return NULL;
    it->is_new = true;
    uv_async_send(&p->kick);
    return &it->instance;
}

static struct instance *plain_adopt(struct driver *d, const char *id,
                                    const struct instance_events *events, void *user,
                                    struct err *e) {
    struct plain *p = plain_of(d);
    AUTO_CLOSE int link = plain_process_connect(p, id, e);
    int pid_fd = link < 0 ? -1 : peer_pidfd(link);
    if (link >= 0 && pid_fd < 0)
        err_sys(e, ERR_GUEST_LOST, -pid_fd, "watch the guest of %s", id);
    if (pid_fd < 0)
        return NULL;
    struct plain_instance *it = plain_instance_new(p, id, pid_fd, TAKE_FD(link), events, user, e);
    return it ? &it->instance : NULL;
}

static int plain_connect(struct instance *instance, struct err *e) {
    struct plain_instance *it = container_of(instance, struct plain_instance, instance);
    if (it->found_link >= 0)
        return TAKE_FD(it->found_link);
    return plain_process_connect(it->plain, instance->id, e);
}

static void plain_stop(struct instance *instance) {
    struct plain_instance *it = container_of(instance, struct plain_instance, instance);
    if (!it->closing)
        plain_process_kill(it->pid_fd);
}

/* --- answers from the loop --- */

static void plain_answer(struct plain *p, driver_done *done, void *user) {
    struct plain_answer *a = done ? calloc(1, sizeof *a) : NULL;
    if (!a)
        return;
    a->done = done;
    a->user = user;
    list_push_back(&p->answers, &a->in_plain);
    uv_async_send(&p->kick);
}

static struct plain_instance *plain_next_new(struct plain *p) {
    LIST_FOR_EACH(node, &p->instances) {
        struct plain_instance *it = container_of(node, struct plain_instance, in_plain);
        if (it->is_new)
            return it;
    }
    return NULL;
}

static void on_kick(uv_async_t *kick) {
    struct plain *p = kick->data;
    if (p->driver.on_open) {
        void (*notify)(struct driver * d, const struct err *e) = TAKE(p->driver.on_open);
        notify(&p->driver, NULL);
    }
    for (struct list *node; !p->closing && (node = list_pop_front(&p->answers));) {
        struct plain_answer *a = container_of(node, struct plain_answer, in_plain);
        a->done(a->user, NULL);
        free(a);
    }
    for (struct plain_instance *it; !p->closing && (it = plain_next_new(p));) {
        it->is_new = false;
        it->instance.events->on_ready(&it->instance);
    }
}

static void plain_discard(struct driver *d, const char *id, bool with_files, driver_done *done,
                          void *user) {
    plain_process_remove(plain_of(d), id, with_files);
    plain_answer(plain_of(d), done, user);
}

static bool plain_is_kept(const char *name, const char *const *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(ids[i], name) == 0)
            return true;
    return false;
}

static void plain_sweep(struct driver *d, const char *const *ids, size_t n, driver_done *done,
                        void *user) {
    struct plain *p = plain_of(d);
    int copy = openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *at; list && (at = readdir(list));)
        if (at->d_type == DT_DIR && at->d_name[0] != '.' && !plain_is_kept(at->d_name, ids, n))
            plain_process_remove(p, at->d_name, true);
    if (list)
        closedir(list);
    plain_answer(p, done, user);
}

/* --- the driver --- */

static void on_exits_closed(uv_handle_t *handle) {
    struct plain *p = handle->data;
    void (*notify)(struct driver * d) = p->driver.on_closed;
    for (struct list *node; (node = list_pop_front(&p->answers));)
        free(container_of(node, struct plain_answer, in_plain));
    close(p->exits_fd);
    close(p->dir_fd);
    if (notify)
        notify(&p->driver);
    free(p->guest);
    free(p);
}

static void on_kick_closed(uv_handle_t *handle) {
    uv_close((uv_handle_t *)&((struct plain *)handle->data)->exits, on_exits_closed);
}

static void plain_close(struct driver *d) {
    struct plain *p = plain_of(d);
    if (p->closing)
        return;
    p->closing = true;
    LIST_FOR_EACH(node, &p->instances)
        plain_close_instance(&container_of(node, struct plain_instance, in_plain)->instance);
    uv_close((uv_handle_t *)&p->kick, on_kick_closed);
}

static const struct driver_ops ops = {
    .name = "plain",
    .close = plain_close,
    .create = plain_create,
    .adopt = plain_adopt,
    .connect = plain_connect,
    .stop = plain_stop,
    .close_instance = plain_close_instance,
    .discard = plain_discard,
    .sweep = plain_sweep,
};

struct driver *plain_open(const struct plain_spec *spec, struct err *e) {
    struct plain *p = calloc(1, sizeof *p);
    int exits = epoll_create1(EPOLL_CLOEXEC);
    char *guest = strdup(spec->guest);
    if (!p || !guest || exits < 0) {
        err_set(e, ERR_LIMIT_REACHED, "open the plain driver");
        free(p);
        free(guest);
        fd_close_all((int[]){exits, spec->dir_fd}, 2);
        return NULL;
    }
    signal(SIGCHLD, SIG_IGN); /* makes the kernel reap exited guests */
    p->driver = (struct driver){.ops = &ops,
                                .user_name = p->user,
                                .loop = spec->loop,
                                .on_open = spec->on_open,
                                .user = spec->user};
    p->dir_fd = spec->dir_fd;
    p->guest = guest;
    p->is_bytes_only = spec->is_bytes_only;
    p->exits_fd = exits;
    snprintf(p->user, sizeof p->user, "%u", (unsigned)getuid());
    list_init(&p->instances);
    list_init(&p->answers);
    uv_async_init(spec->loop, &p->kick, on_kick);
    uv_poll_init(spec->loop, &p->exits, exits);
    p->kick.data = p->exits.data = p;
    uv_poll_start(&p->exits, UV_READABLE, on_exits);
    uv_async_send(&p->kick); /* the loop calls on_open */
    return &p->driver;
}
