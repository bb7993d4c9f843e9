/* Calls that do not block. One thread per open call makes a blocking call, with the usual retries
 * and resumption. Callbacks run in the thread that calls berm_async_dispatch. The call's thread
 * passes one message and waits until the callback has returned, so a slow callback slows the daemon
 * down and messages do not accumulate. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"

#define IDLE_CLIENTS 8 /* maximum of idle connections kept for later calls */

struct berm_async {
    struct berm_options options;
    pthread_mutex_t lock; /* protects everything below and the state of each berm_pending */
    struct list open;     /* every call whose on_done has not run */
    struct list ready;    /* calls with something to report; a dispatch takes the whole list */
    size_t n_open;
    struct berm_client *idle[IDLE_CLIENTS];
    size_t n_idle;
    int fd; /* an eventfd, readable while `ready` may be nonempty */
};

struct berm_pending {
    struct berm_async *async;
    struct list in_open, in_ready;
    const struct berm_method *method;
    void *request;
    berm_on_message on_message;
    berm_on_done on_done;
    void *user;
    pthread_t thread;
    int cancel_fd;
    bool cancelled;
    const void *message; /* message for on_message; NULL: none, or on_message has returned */
    bool telling;        /* the user's callback is using `message` */
    pthread_cond_t taken;
    int result; /* last result of on_message */
    bool done;
    int r;
    void *answer;
    struct berm_error error;
};

/* --- in the thread of a call --- */

static void make_ready(struct berm_pending *p) {
    uint64_t one = 1;
    if (list_is_empty(&p->in_ready))
        list_push_back(&p->async->ready, &p->in_ready);
    (void)!write(p->async->fd, &one, sizeof one);
}

static int on_cancel(void *user) {
    struct berm_pending *p = user;
    uint64_t times;
    (void)!read(p->cancel_fd, &times, sizeof times);
    return 1;
}

static int forward(const void *message, void *user) {
    struct berm_pending *p = user;
    pthread_mutex_lock(&p->async->lock);
    p->message = message;
    make_ready(p);
    while (p->message && (!p->cancelled || p->telling))
        pthread_cond_wait(&p->taken, &p->async->lock);
    int result = p->cancelled ? 1 : p->result;
    p->message = NULL;
    pthread_mutex_unlock(&p->async->lock);
    return result;
}

static int on_output(const Berm__V1__AttachExecResponse *m, void *user) {
    return forward(m, user);
}

static int on_event(const Berm__V1__WatchEventsResponse *m, void *user) {
    return forward(m, user);
}

static int on_change(const Berm__V1__WatchFilesResponse *m, void *user) {
    return forward(m, user);
}

static int perform(struct berm_pending *p, struct berm_client *c) {
    if (p->method->kind == METHOD_UNARY)
        return berm_unary(c, p->method, p->request, &p->answer, &p->error);
    if (p->method == method_of(METHOD_ID_AttachExec))
        return berm_exec_attach(c, p->request, on_output, p, &p->error);
    if (p->method == method_of(METHOD_ID_WatchEvents))
        return berm_events_watch(c, p->request, on_event, p, &p->error);
    if (p->method == method_of(METHOD_ID_WatchFiles))
        return berm_files_watch(c, p->request, on_change, p, &p->error);
    return berm_stream(c, p->method, p->request, forward, p, &p->error);
}

static struct berm_client *take_client(struct berm_async *a) {
    pthread_mutex_lock(&a->lock);
    struct berm_client *c = a->n_idle > 0 ? a->idle[--a->n_idle] : NULL;
    pthread_mutex_unlock(&a->lock);
    return c ? c : berm_client_new(&a->options);
}

static void give_client(struct berm_async *a, struct berm_client *c) {
    berm_client_set_wake(c, -1, NULL, NULL);
    pthread_mutex_lock(&a->lock);
    bool keep = a->n_idle < IDLE_CLIENTS;
    if (keep)
        a->idle[a->n_idle++] = c;
    pthread_mutex_unlock(&a->lock);
    if (!keep)
        berm_client_free(c);
}

static void *work(void *user) {
    struct berm_pending *p = user;
    struct berm_client *c = take_client(p->async);
    int r = c ? 0 : error_set(&p->error, BERM_OUT_OF_MEMORY, "out of memory");
    if (c) {
        berm_client_set_wake(c, p->cancel_fd, on_cancel, p);
        r = perform(p, c);
        give_client(p->async, c);
    }
    pthread_mutex_lock(&p->async->lock);
    if (p->cancelled && r != 0)
        r = error_set(&p->error, BERM_CANCELLED, "the caller ended the call");
    p->r = r;
    p->done = true;
    make_ready(p);
    pthread_mutex_unlock(&p->async->lock);
    return NULL;
}

/* --- in the user's thread --- */

struct berm_async *berm_async_new(const struct berm_options *options) {
    struct berm_async *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->fd < 0) {
        free(a);
        return NULL;
    }
    if (options)
        a->options = *options;
    pthread_mutex_init(&a->lock, NULL);
    list_init(&a->open);
    list_init(&a->ready);
    return a;
}

int berm_async_fd(const struct berm_async *a) {
    return a->fd;
}

/* Starts the thread of a call with all signals blocked. */
static int start_thread(struct berm_pending *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&p->thread, NULL, work, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -failed;
}

static void pending_free(struct berm_pending *p) {
    if (p->cancel_fd >= 0)
        close(p->cancel_fd);
    pthread_cond_destroy(&p->taken);
    berm_free(p->request);
    berm_free(p->answer);
    free(p);
}

struct berm_pending *berm_async_call(struct berm_async *a, const struct berm_method *m,
                                     const void *request, berm_on_message on_message,
                                     berm_on_done on_done, void *user) {
    bool is_stream = m && m->kind == METHOD_STREAM;
    if (!m || (!is_stream && m->kind != METHOD_UNARY) || is_stream != (on_message != NULL)) {
        errno = EINVAL;
        return NULL;
    }
    struct berm_pending *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    *p = (struct berm_pending){.async = a,
                               .method = m,
                               .request = client_copy(request),
                               .on_message = on_message,
                               .on_done = on_done,
                               .user = user,
                               .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    list_init(&p->in_open);
    list_init(&p->in_ready);
    pthread_cond_init(&p->taken, NULL);
    pthread_mutex_lock(&a->lock);
    bool started = p->request && p->cancel_fd >= 0 && start_thread(p) == 0;
    if (started) {
        list_push_back(&a->open, &p->in_open);
        a->n_open++;
    }
    pthread_mutex_unlock(&a->lock);
    if (started)
        return p;
    pending_free(p);
    errno = EAGAIN;
    return NULL;
}

static void cancel_locked(struct berm_pending *p) {
    uint64_t one = 1;
    p->cancelled = true;
    (void)!write(p->cancel_fd, &one, sizeof one);
    pthread_cond_signal(&p->taken);
}

void berm_pending_cancel(struct berm_pending *p) {
    pthread_mutex_lock(&p->async->lock);
    cancel_locked(p);
    pthread_mutex_unlock(&p->async->lock);
}

/* Runs the pending callback of one call. The caller holds the lock; it is released during the
 * callback. */
static void tell(struct berm_async *a, struct berm_pending *p) {
    if (p->message && !p->cancelled) {
        p->telling = true;
        pthread_mutex_unlock(&a->lock);
        int result = p->on_message(p->message, p->user);
        pthread_mutex_lock(&a->lock);
        p->telling = false;
        p->result = result;
        p->message = NULL;
        pthread_cond_signal(&p->taken);
        return;
    }
    if (!p->done)
        return;
    list_remove(&p->in_open);
    a->n_open--;
    pthread_mutex_unlock(&a->lock);
    pthread_join(p->thread, NULL);
    if (p->on_done)
        p->on_done(p->r, p->answer, p->r < 0 ? &p->error : NULL, p->user);
    pending_free(p);
    pthread_mutex_lock(&a->lock);
}

/* Handles only calls that are ready at the start, because fast streams could otherwise keep the
 * loop busy forever. Later messages make the descriptor readable again. */
size_t berm_async_dispatch(struct berm_async *a) {
    uint64_t times;
    struct list due;
    list_init(&due);
    (void)!read(a->fd, &times, sizeof times);
    pthread_mutex_lock(&a->lock);
    for (struct list *node; (node = list_pop_front(&a->ready));)
        list_push_back(&due, node);
    for (struct list *node; (node = list_pop_front(&due));)
        tell(a, container_of(node, struct berm_pending, in_ready));
    size_t n_open = a->n_open;
    pthread_mutex_unlock(&a->lock);
    return n_open;
}

void berm_async_free(struct berm_async *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    LIST_FOR_EACH(node, &a->open)
        cancel_locked(container_of(node, struct berm_pending, in_open));
    pthread_mutex_unlock(&a->lock);
    for (struct list *node; (node = list_pop_front(&a->open));) {
        struct berm_pending *p = container_of(node, struct berm_pending, in_open);
        pthread_join(p->thread, NULL);
        pending_free(p);
    }
    for (size_t i = 0; i < a->n_idle; i++)
        berm_client_free(a->idle[i]);
    pthread_mutex_destroy(&a->lock);
    close(a->fd);
    free(a);
}
