#include "core/imports/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "open/request.h"

struct opener {
    uv_poll_t poll;
    struct deadlines *deadlines;
    struct deadline kick; /* makes the loop answer the requests in `refused` */
    int fd;
    uint32_t seq;
    bool lost;
    bool closing;
    struct list unsent;
    struct list asked;
    struct list refused; /* requests that were not sent: out of memory, or berm-open has exited */
    void (*on_closed)(void *user);
    void *close_user;
};

void open_ask_init(struct open_ask *a,
                   void (*on_done)(struct open_ask *a, const struct open_result *result)) {
    *a = (struct open_ask){.pipe_fd = -1, .on_done = on_done};
    list_init(&a->in_opener);
}

static void opener_free_message(struct open_ask *a) {
    free(TAKE(a->message));
    if (a->pipe_fd >= 0)
        close(TAKE_FD(a->pipe_fd));
}

void open_ask_cancel(struct open_ask *a) {
    list_remove(&a->in_opener);
    opener_free_message(a);
}

/* --- answers --- */

static void opener_answer(struct open_ask *a, const struct open_result *result) {
    open_ask_cancel(a);
    a->on_done(a, result);
}

static void on_kick(struct deadline *d) {
    struct opener *o = container_of(d, struct opener, kick);
    struct err e;
    if (o->lost)
        err_set(&e, ERR_DRIVER_UNAVAILABLE, "berm-open has exited: restart bermd");
    else
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    while (!o->closing && !list_is_empty(&o->refused))
        opener_answer(container_of(o->refused.next, struct open_ask, in_opener),
                      &(struct open_result){.e = &e});
}

static void opener_refuse(struct opener *o, struct open_ask *a) {
    list_remove(&a->in_opener);
    list_push_back(&o->refused, &a->in_opener);
    deadline_set(o->deadlines, &o->kick, clock_us());
}

static void opener_lose(struct opener *o) {
    o->lost = true;
    uv_poll_stop(&o->poll);
    struct list *lists[] = {&o->asked, &o->unsent};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        while (!list_is_empty(lists[i]))
            opener_refuse(o, container_of(lists[i]->next, struct open_ask, in_opener));
}

static void opener_take_reply(struct opener *o, struct open_reply *reply, int *fd) {
    struct err e;
    LIST_FOR_EACH(node, &o->asked) {
        struct open_ask *a = container_of(node, struct open_ask, in_opener);
        if (a->seq != reply->seq)
            continue;
        reply->text[sizeof reply->text - 1] = '\0';
        reply->path[sizeof reply->path - 1] = reply->real[sizeof reply->real - 1] = '\0';
        if (reply->code != 0)
            err_set(&e,
                    err_face((enum err_code)reply->code) ? (enum err_code)reply->code
                                                         : ERR_HOST_PATH_REFUSED,
                    "%s", reply->text);
        opener_answer(a, &(struct open_result){.e = reply->code != 0 ? &e : NULL,
                                               .fd = fd,
                                               .is_file = reply->is_file != 0,
                                               .is_foreign = reply->is_foreign != 0,
                                               .path = reply->path,
                                               .real = reply->real});
        return;
    }
}

static void opener_receive(struct opener *o) {
    while (!o->lost && !o->closing) {
        struct open_reply reply = {0};
        int fd = -1;
        size_t n_fds = 0;
        ssize_t n = fd_recv(o->fd, &reply, sizeof reply, &fd, 1, &n_fds);
        if (n == -EAGAIN)
            return;
        if (n == -EMFILE) { /* berm-open opened the path, but bermd has no free descriptor */
            reply.code = ERR_LIMIT_REACHED;
            snprintf(reply.text, sizeof reply.text, "too many files are open");
        }
        if ((n == sizeof reply || n == -EMFILE) && reply.version == OPEN_VERSION)
            opener_take_reply(o, &reply, &fd);
        else
            opener_lose(o);
        if (n_fds > 0 && fd >= 0)
            close(fd);
    }
}

/* --- requests --- */

static void opener_send(struct opener *o) {
    while (!list_is_empty(&o->unsent)) {
        struct open_ask *a = container_of(o->unsent.next, struct open_ask, in_opener);
        const struct open_head *head = a->message;
        int r = fd_send(o->fd, head, head->size, &a->pipe_fd, a->pipe_fd >= 0 ? 1 : 0);
        if (r == -EAGAIN)
            return;
        if (r < 0) {
            opener_lose(o);
            return;
        }
        opener_free_message(a);
        list_remove(&a->in_opener);
        list_push_back(&o->asked, &a->in_opener);
    }
}

static void opener_poll(struct opener *o);

static void on_socket(uv_poll_t *poll, int status, int events) {
    struct opener *o = poll->data;
    if (status < 0) {
        opener_lose(o);
        return;
    }
    if (events & UV_READABLE)
        opener_receive(o);
    if (!o->lost && !o->closing && (events & UV_WRITABLE)) {
        opener_send(o);
        opener_poll(o);
    }
}

static void opener_poll(struct opener *o) {
    if (!o->lost && !o->closing)
        uv_poll_start(&o->poll, UV_READABLE | (list_is_empty(&o->unsent) ? 0 : UV_WRITABLE),
                      on_socket);
}

/* Queues a new message and returns its head. Returns NULL and refuses the request when memory is
 * short or berm-open has exited. */
static struct open_head *opener_queue(struct opener *o, struct open_ask *a, uint32_t kind,
                                      size_t size, uint32_t uid, const char *path) {
    struct open_head *head = o->lost ? NULL : calloc(1, size);
    if (!head) {
        opener_refuse(o, a);
        return NULL;
    }
    *head = (struct open_head){
        .version = OPEN_VERSION, .kind = kind, .size = (uint32_t)size, .seq = ++o->seq, .uid = uid};
    snprintf(head->path, sizeof head->path, "%s", path);
    a->seq = head->seq;
    a->message = head;
    list_push_back(&o->unsent, &a->in_opener);
    return head;
}

void opener_directory(struct opener *o, struct open_ask *a, uint32_t uid, const char *path,
                      bool writable) {
    struct open_head *head = opener_queue(o, a, OPEN_DIRECTORY, sizeof *head, uid, path);
    if (head)
        head->flags = writable ? OPEN_WRITABLE : 0;
    opener_poll(o);
}

void opener_source(struct opener *o, struct open_ask *a, uint32_t uid, const char *path) {
    if (opener_queue(o, a, OPEN_SOURCE, sizeof(struct open_head), uid, path))
        opener_poll(o);
}

void opener_program(struct opener *o, struct open_ask *a, uint32_t uid, const char *path) {
    if (opener_queue(o, a, OPEN_PROGRAM, sizeof(struct open_head), uid, path))
        opener_poll(o);
}

void opener_pack(struct opener *o, struct open_ask *a, uint32_t uid,
                 const struct open_pack_spec *spec, int pipe_fd) {
    struct open_pack *q = (void *)opener_queue(o, a, OPEN_PACK, sizeof *q, uid, spec->path);
    size_t at = 0;
    if (!q)
        return;
    q->head.flags = spec->is_private ? OPEN_PRIVATE : 0;
    snprintf(q->name, sizeof q->name, "%s", spec->name);
    for (size_t i = 0; i < spec->n_excludes; i++) {
        size_t n = strlen(spec->excludes[i]) + 1;
        if (n > sizeof q->excludes - at)
            break; /* never reached, because spec_check limits the size of the excludes */
        memcpy(q->excludes + at, spec->excludes[i], n);
        at += n;
        q->n_excludes++;
    }
    a->pipe_fd = fcntl(pipe_fd, F_DUPFD_CLOEXEC, 3);
    if (a->pipe_fd < 0) {
        opener_free_message(a);
        opener_refuse(o, a);
        return;
    }
    opener_poll(o);
}

/* --- life --- */

struct opener *opener_new(uv_loop_t *loop, struct deadlines *deadlines, int fd) {
    struct opener *o = calloc(1, sizeof *o);
    if (!o || fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || uv_poll_init(loop, &o->poll, fd) < 0) {
        close(fd);
        free(o);
        return NULL;
    }
    o->poll.data = o;
    o->fd = fd;
    o->deadlines = deadlines;
    list_init(&o->unsent);
    list_init(&o->asked);
    list_init(&o->refused);
    deadline_init(&o->kick, on_kick);
    opener_poll(o);
    return o;
}

static void on_poll_closed(uv_handle_t *handle) {
    struct opener *o = handle->data;
    void (*notify)(void *user) = o->on_closed;
    void *user = o->close_user;
    close(o->fd);
    free(o);
    notify(user);
}

void opener_close(struct opener *o, void (*on_closed)(void *user), void *user) {
    o->closing = true;
    o->on_closed = on_closed;
    o->close_user = user;
    deadline_clear(o->deadlines, &o->kick);
    struct list *lists[] = {&o->asked, &o->unsent, &o->refused};
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        while (!list_is_empty(lists[i]))
            open_ask_cancel(container_of(lists[i]->next, struct open_ask, in_opener));
    uv_close((uv_handle_t *)&o->poll, on_poll_closed);
}
