#include "drivers/native/spawn_link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/fd.h"

struct spawn_ask *spawn_ask_new(uint32_t kind, size_t size, spawn_on_reply *on_reply,
                                void *subject) {
    struct spawn_ask *a = calloc(1, sizeof *a + size);
    if (!a)
        return NULL;
    list_init(&a->in_link);
    a->on_reply = on_reply;
    a->subject = subject;
    a->size = (uint32_t)size;
    a->message->head = (struct spawn_head){.version = SPAWN_VERSION, .kind = kind, .size = a->size};
    return a;
}

void spawn_ask_free(struct spawn_ask *a) {
    list_remove(&a->in_link);
    fd_close_all(a->fds, a->n_fds);
    free(a);
}

static void spawn_link_answer(struct spawn_ask *a, const struct spawn_reply *reply, int *fds,
                              size_t n_fds) {
    list_remove(&a->in_link);
    if (a->on_reply)
        a->on_reply(a, reply, fds, n_fds);
    spawn_ask_free(a);
}

/* Fails every pending request. The instances keep running. */
static void spawn_link_lose(struct spawn_link *l) {
    static const struct spawn_reply none = {.error = EPIPE, .step = STEP_REQUEST};
    l->lost = true;
    uv_poll_stop(&l->poll);
    struct list *lists[] = {&l->asked, &l->unsent};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        while (!l->closing && !list_is_empty(lists[i]))
            spawn_link_answer(container_of(lists[i]->next, struct spawn_ask, in_link), &none, NULL,
                              0);
    if (!l->closing)
        l->on_lost(l);
}

static void spawn_link_take_reply(struct spawn_link *l, const struct spawn_reply *reply, int *fds,
                                  size_t n_fds) {
    LIST_FOR_EACH(node, &l->asked) {
        struct spawn_ask *a = container_of(node, struct spawn_ask, in_link);
        if (a->message->head.seq == reply->head.seq) {
            spawn_link_answer(a, reply, fds, n_fds);
            return;
        }
    }
}

/* Sends the waiting requests. Stops at the first request that fails, and returns its -errno. */
static int spawn_link_send_waiting(struct spawn_link *l) {
    while (!list_is_empty(&l->unsent)) {
        struct spawn_ask *a = container_of(l->unsent.next, struct spawn_ask, in_link);
        int sent = fd_send(l->fd, a->message, a->size, a->fds, a->n_fds);
        if (sent < 0)
            return sent;
        fd_close_all(a->fds, a->n_fds);
        a->n_fds = 0;
        list_remove(&a->in_link);
        list_push_back(&l->asked, &a->in_link);
    }
    return 0;
}

/* Fails the first waiting request. ETOOMANYREFS is temporary: too many sent descriptors are still
 * unread by guests. */
static void spawn_link_refuse_first(struct spawn_link *l) {
    static const struct spawn_reply full = {.error = ETOOMANYREFS, .step = STEP_FDS};
    spawn_link_answer(container_of(l->unsent.next, struct spawn_ask, in_link), &full, NULL, 0);
}

static void spawn_link_receive(struct spawn_link *l) {
    int fds[FD_PASS_MAX];
    while (!l->lost && !l->closing) {
        struct spawn_reply reply = {0};
        size_t n_fds = 0;
        ssize_t got = fd_recv(l->fd, &reply, sizeof reply, fds, COUNT_OF(fds), &n_fds);
        if (got == -EAGAIN)
            return;
        if (got == -EMFILE) { /* berm-spawn succeeded, but bermd has no free descriptor */
            got = reply.head.size;
            reply.error = EMFILE;
            reply.step = STEP_FDS;
        }
        if (got != sizeof reply || reply.head.version != SPAWN_VERSION) {
            if (got > 0)
                fd_close_all(fds, n_fds);
            spawn_link_lose(l);
            return;
        }
        spawn_link_take_reply(l, &reply, fds, n_fds);
        fd_close_all(fds, n_fds);
    }
}

static void spawn_link_poll(struct spawn_link *l);

static void on_socket(uv_poll_t *handle, int status, int events) {
    struct spawn_link *l = handle->data;
    if (status < 0) {
        spawn_link_lose(l);
        return;
    }
    if (events & UV_READABLE)
        spawn_link_receive(l);
    if (!l->lost && !l->closing && (events & UV_WRITABLE)) {
        int r = spawn_link_send_waiting(l);
        if (r == -ETOOMANYREFS)
            spawn_link_refuse_first(l); /* the other requests are retried on the next event */
        else if (r < 0 && r != -EAGAIN)
            spawn_link_lose(l);
        spawn_link_poll(l);
    }
}

static void spawn_link_poll(struct spawn_link *l) {
    int events = UV_READABLE | (list_is_empty(&l->unsent) ? 0 : UV_WRITABLE);
    if (!l->lost && !l->closing)
        uv_poll_start(&l->poll, events, on_socket);
}

void spawn_link_send(struct spawn_link *l, struct spawn_ask *a) {
    a->message->head.seq = ++l->seq;
    list_push_back(&l->unsent, &a->in_link);
    /* Try to send now. On failure, the loop sends the request later or reports that berm-spawn has
     * exited. */
    if (!l->lost && !l->closing && spawn_link_send_waiting(l) < 0)
        spawn_link_poll(l);
}

void spawn_link_forget(struct spawn_link *l, const void *subject) {
    struct list *lists[] = {&l->unsent, &l->asked};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        LIST_FOR_EACH(node, lists[i]) {
            struct spawn_ask *a = container_of(node, struct spawn_ask, in_link);
            if (a->subject == subject) {
                a->on_reply = NULL;
                a->subject = NULL;
            }
        }
}

int spawn_link_open(struct spawn_link *l, uv_loop_t *loop, int fd,
                    void (*on_lost)(struct spawn_link *l),
                    void (*on_closed)(struct spawn_link *l)) {
    l->fd = fd;
    l->on_lost = on_lost;
    l->on_closed = on_closed;
    list_init(&l->unsent);
    list_init(&l->asked);
    int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : uv_poll_init(loop, &l->poll, fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    l->poll.data = l;
    spawn_link_poll(l);
    return 0;
}

static void on_poll_closed(uv_handle_t *handle) {
    struct spawn_link *l = handle->data;
    close(l->fd);
    l->on_closed(l);
}

void spawn_link_close(struct spawn_link *l) {
    l->closing = true;
    struct list *lists[] = {&l->asked, &l->unsent};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        while (!list_is_empty(lists[i]))
            spawn_ask_free(container_of(lists[i]->next, struct spawn_ask, in_link));
    uv_close((uv_handle_t *)&l->poll, on_poll_closed);
}
