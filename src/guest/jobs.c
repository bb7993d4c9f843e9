#include "guest/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "guest/guest.h"
#include "guest/params.h"
#include "guest/path.h"
#include "guest/reply.h"

/* What the child sends: this, followed by `bytes` bytes of members. */
struct jobs_head {
    struct err err; /* code ERR_NONE: success */
    uint32_t bytes;
};

void jobs_init(struct jobs *js) {
    *js = (struct jobs){0};
    list_init(&js->running);
    list_init(&js->waiting);
    list_init(&js->children);
}

int jobs_wait(struct jobs *js, uint64_t generation, struct str text, struct err *e) {
    if (js->n_waiting >= JOBS_WAITING || text.n > JOBS_WAITING_BYTES - js->waiting_bytes)
        return err_set(e, ERR_LIMIT_REACHED, "%zu file requests wait, the maximum", js->n_waiting);
    struct jobs_waiting *w = malloc(sizeof *w + text.n);
    if (!w)
        return err_set(e, ERR_OUT_OF_MEMORY, "queue a file request: out of memory");
    w->generation = generation;
    w->n = text.n;
    memcpy(w->text, text.p, text.n);
    list_push_back(&js->waiting, &w->node);
    js->n_waiting++;
    js->waiting_bytes += text.n;
    return 0;
}

struct jobs_waiting *jobs_next(struct jobs *js) {
    if (js->n_running >= JOBS_RUNNING || list_is_empty(&js->waiting))
        return NULL;
    struct jobs_waiting *w = container_of(list_pop_front(&js->waiting), struct jobs_waiting, node);
    js->n_waiting--;
    js->waiting_bytes -= w->n;
    return w;
}

static void job_on_grave(struct later *l) {
    struct job *j = container_of(l, struct job, grave);
    buf_done(&j->reply);
    free(j);
}

static void job_close(struct job *j) {
    int fd = loop_remove(&j->guest->loop, &j->sock);
    close(fd);
    fd_close_all(j->fds, j->n_fds);
    timer_stop(&j->limit);
    child_forget(&j->child);
    list_remove(&j->node);
    j->guest->jobs.n_running--;
    j->guest->jobs.n_searches -= j->is_search;
    loop_free_later(&j->guest->loop, &j->grave, job_on_grave);
}

static void job_fail(struct job *j, const struct err *e) {
    reply_error(j->guest, j->generation, j->id, e, -1);
    job_close(j);
}

static void job_on_limit(struct timer *t) {
    struct job *j = container_of(t, struct job, limit);
    struct err e;
    child_kill(&j->child);
    err_set(&e, ERR_DEADLINE_EXCEEDED, "the work took longer than %llu s",
            (unsigned long long)j->max_ms / 1000);
    job_fail(j, &e);
}

void jobs_done(struct jobs *js) {
    for (struct list *it; (it = list_pop_front(&js->waiting));)
        free(container_of(it, struct jobs_waiting, node));
    while (!list_is_empty(&js->running)) {
        struct job *j = container_of(js->running.next, struct job, node);
        child_kill(&j->child);
        job_close(j);
    }
}

int work_path(struct work *w, const char *name, char **ret, struct err *e) {
    if (path_param(w->params, name, w->workspace, w->arena, ret, e) < 0)
        return -(int)e->code;
    path_clean(*ret);
    return 0;
}

void jobs_reply(struct guest *g, struct job *j, struct str members, const int *fds, size_t n_fds) {
    reply_send(g, j->generation, j->id, members, fds, n_fds);
}

static void job_on_result(struct job *j) {
    struct jobs_head head = {0};
    struct err e;
    size_t n = buf_len(&j->reply);
    if (n >= sizeof head)
        memcpy(&head, buf_data(&j->reply), sizeof head);
    if (n < sizeof head || n != sizeof head + head.bytes) {
        err_set(&e, ERR_INTERNAL, "the process that did the work was killed");
        job_fail(j, &e);
        return;
    }
    if (head.err.code != ERR_NONE) {
        job_fail(j, &head.err);
        return;
    }
    struct str members = {(const char *)buf_data(&j->reply) + sizeof head, head.bytes};
    size_t n_fds = j->n_fds;
    j->n_fds = 0; /* on_result takes the descriptors */
    j->on_result(j->guest, j, members, j->fds, n_fds);
    job_close(j);
}

static void job_on_ready(struct source *s, uint32_t events) {
    struct job *j = container_of(s, struct job, sock);
    (void)events;
    uint8_t *at;
    int fds[JOB_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n = buf_reserve(&j->reply, MIN((size_t)65536, buf_available(&j->reply)), &at);
    if (n == 0)
        n = fd_recv(s->fd, at, MIN((size_t)65536, buf_available(&j->reply)), fds, JOB_FDS_MAX,
                    &n_fds);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        job_on_result(j);
        return;
    }
    buf_commit(&j->reply, (size_t)n);
    for (size_t i = 0; i < n_fds; i++) {
        if (j->n_fds < JOB_FDS_MAX)
            j->fds[j->n_fds++] = fds[i];
        else
            close(fds[i]);
    }
}

static void job_child_send(int sock, const uint8_t *bytes, size_t n) {
    while (n > 0) {
        ssize_t w = send(sock, bytes, n, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            _exit(1);
        bytes += w;
        n -= (size_t)w;
    }
}

/* Closes everything above 2 except the socket and the descriptors of the handle. */
static void job_child_close_fds(int sock, const struct handle *h) {
    int keep[3] = {sock, h ? h->fd : -1, h ? h->dir : -1};
    unsigned from = 3;
    while (from < ~0u) {
        unsigned next = ~0u;
        for (size_t i = 0; i < COUNT_OF(keep); i++)
            if (keep[i] >= 0 && (unsigned)keep[i] >= from)
                next = MIN(next, (unsigned)keep[i]);
        if (next > from)
            syscall(SYS_close_range, from, next == ~0u ? ~0u : next - 1, 0);
        from = next == ~0u ? next : next + 1;
    }
}

/* Limits the address space, because regular expressions and hostile trees could exhaust memory.
 * AddressSanitizer itself needs a large address space. */
static void job_child_bound_memory(void) {
#if !defined(__SANITIZE_ADDRESS__)
    struct rlimit limit = {JOB_MEMORY, JOB_MEMORY};
    setrlimit(RLIMIT_AS, &limit);
#endif
}

static void job_child_main(struct request *r, work_fn *work, const struct user *u,
                           const struct handle *h, int sock) {
    struct guest *g = r->guest;
    struct jobs_head head = {0};
    job_child_close_fds(sock, h);
    job_child_bound_memory();
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    struct json_out out;
    buf_clear(&g->text);
    json_begin(&out, &g->text);
    struct work w = {.params = r->params,
                     .out = &out,
                     .arena = &g->arena,
                     .handle = h,
                     .fds = {-1, -1},
                     .workspace = g->settings.workspace ? g->settings.workspace : "/"};
    int e = user_become(u, &g->privileges);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    /* Set this after user_become, because a change of user clears the parent-death signal. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    umask(0); /* the request gives exact modes */
    if (e < 0)
        err_sys(&head.err, ERR_INTERNAL, -e, "change to user %s", u->name);
    else if (work(&w, &head.err) == 0)
        head.err.code = ERR_NONE;
    if (head.err.code == ERR_NONE && json_end(&out) < 0)
        err_set(&head.err, ERR_MESSAGE_TOO_LARGE, "the reply is larger than a message");
    head.bytes = head.err.code == ERR_NONE ? (uint32_t)buf_len(&g->text) : 0;
    size_t n_fds = head.err.code == ERR_NONE ? w.n_fds : 0;
    if (fd_send(sock, &head, sizeof head, w.fds, n_fds) < 0)
        _exit(1);
    job_child_send(sock, buf_data(&g->text), head.bytes);
    if (head.err.code == ERR_NONE && w.then) {
        close(sock);
        fd_close_all(w.fds, w.n_fds);
        w.then(&w);
    }
    _exit(0);
}

/* Finds the user to run as: the user that opened the handle, else that of the request, else that of the sandbox. */
static int job_find_user(struct request *r, const struct handle *h, struct user *u, struct err *e) {
    struct user_cache *cache = &r->guest->users;
    char uid[21];
    if (h)
        return user_find(cache, u, (struct str){uid, (size_t)(str_put_u64(uid, h->uid) - uid)}, e);
    struct str name = r->guest->settings.user ? str_of(r->guest->settings.user) : (struct str){0};
    struct str asked = {0};
    if (params_str(r->params, "user", 64, &asked, e) < 0)
        return -(int)e->code;
    return user_find(cache, u, asked.n ? asked : name, e);
}

static struct job *job_new(struct request *r, job_result_fn *on_result, const struct handle *h) {
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->guest = r->guest;
    j->id = r->id;
    j->generation = r->generation;
    j->handle = h ? h->id : 0;
    j->on_result = on_result;
    j->sock = (struct source){.fd = -1, .on_ready = job_on_ready};
    buf_init(&j->reply, LINK_MESSAGE_MAX + sizeof(struct jobs_head));
    timer_init(&j->limit, job_on_limit);
    list_init(&j->node);
    return j;
}

static int job_start(struct request *r, work_fn *work, job_result_fn *on_result,
                     const struct handle *h, bool is_search, struct err *e) {
    struct jobs *js = &r->guest->jobs;
    struct user user;
    int pair[2];
    if (job_find_user(r, h, &user, e) < 0)
        return -(int)e->code;
    if (is_search && js->n_searches >= SEARCHES_RUNNING)
        return err_set(e, ERR_LIMIT_REACHED, "%zu searches are running, the maximum",
                       js->n_searches);
    if (js->n_running >= JOBS_RUNNING)
        return REQUEST_WAIT;
    struct job *j = job_new(r, on_result, h);
    if (!j)
        return err_set(e, ERR_OUT_OF_MEMORY, "start file work: out of memory");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        free(j);
        return err_sys(e, ERR_LIMIT_REACHED, errno, "start file work");
    }
    pid_t pid = fork();
    if (pid == 0)
        job_child_main(r, work, &user, h, pair[1]);
    int error = pid < 0 ? errno : 0;
    close(pair[1]);
    if (error == 0 && (fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ||
                       loop_add(&r->guest->loop, &j->sock, pair[0], EPOLLIN) < 0))
        error = errno;
    if (error != 0) {
        close(pair[0]);
        free(j);
        return err_sys(e, ERR_LIMIT_REACHED, error, "start file work");
    }
    child_add(&js->children, &j->child, pid);
    list_push_back(&js->running, &j->node);
    js->n_running++;
    js->n_searches += is_search;
    j->is_search = is_search;
    j->max_ms = is_search ? SEARCH_MAX_MS : JOB_MAX_MS;
    timer_start(&r->guest->loop, &j->limit, j->max_ms);
    return REQUEST_LATER;
}

int jobs_start(struct request *r, work_fn *work, job_result_fn *on_result, const struct handle *h,
               struct err *e) {
    return job_start(r, work, on_result, h, false, e);
}

int jobs_start_search(struct request *r, work_fn *work, struct err *e) {
    return job_start(r, work, jobs_reply, NULL, true, e);
}
