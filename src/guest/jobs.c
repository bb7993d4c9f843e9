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
#include "guest/reply.h"

/* The child's one message: this, then `bytes` of members. */
struct reply_head {
    struct err err; /* code ERR_NONE: it went well */
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
        return err_set(e, ERR_LIMIT_REACHED, "%zu file requests wait", js->n_waiting);
    struct waiting *w = malloc(sizeof *w + text.n);
    if (!w)
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory for a request");
    w->generation = generation;
    w->n = text.n;
    memcpy(w->text, text.p, text.n);
    list_push_back(&js->waiting, &w->node);
    js->n_waiting++;
    js->waiting_bytes += text.n;
    return 0;
}

struct waiting *jobs_next(struct jobs *js) {
    if (js->n_running >= JOBS_RUNNING || list_is_empty(&js->waiting))
        return NULL;
    struct waiting *w = container_of(list_pop_front(&js->waiting), struct waiting, node);
    js->n_waiting--;
    js->waiting_bytes -= w->n;
    return w;
}

static void free_grave(struct later *l) {
    struct job *j = container_of(l, struct job, grave);
    buf_done(&j->reply);
    free(j);
}

static void job_end(struct job *j) {
    int fd = loop_remove(&j->guest->loop, &j->sock);
    close(fd);
    fd_close_all(j->fds, j->n_fds);
    timer_stop(&j->limit);
    child_forget(&j->child);
    list_remove(&j->node);
    j->guest->jobs.n_running--;
    j->guest->jobs.n_searches -= j->is_search;
    loop_free_later(&j->guest->loop, &j->grave, free_grave);
}

static void job_fail(struct job *j, const struct err *e) {
    reply_error(j->guest, j->generation, j->id, e, -1);
    job_end(j);
}

static void on_limit(struct timer *t) {
    struct job *j = container_of(t, struct job, limit);
    struct err e;
    child_kill(&j->child);
    err_set(&e, ERR_DEADLINE_EXCEEDED, "the work took more than %llu s",
            (unsigned long long)j->max_ms / 1000);
    job_fail(j, &e);
}

void jobs_done(struct jobs *js) {
    for (struct list *it; (it = list_pop_front(&js->waiting));)
        free(container_of(it, struct waiting, node));
    while (!list_is_empty(&js->running)) {
        struct job *j = container_of(js->running.next, struct job, node);
        child_kill(&j->child);
        job_end(j);
    }
}

void jobs_answer(struct guest *g, struct job *j, struct str members, const int *fds, size_t n_fds) {
    reply_send(g, j->generation, j->id, members, fds, n_fds);
}

static void job_done(struct job *j) {
    struct reply_head head = {0};
    struct err e;
    size_t n = buf_len(&j->reply);
    if (n >= sizeof head)
        memcpy(&head, buf_data(&j->reply), sizeof head);
    if (n < sizeof head || n != sizeof head + head.bytes) {
        err_set(&e, ERR_INTERNAL, "the work was cut off");
        job_fail(j, &e);
        return;
    }
    if (head.err.code != ERR_NONE) {
        job_fail(j, &head.err);
        return;
    }
    struct str members = {(const char *)buf_data(&j->reply) + sizeof head, head.bytes};
    size_t n_fds = j->n_fds;
    j->n_fds = 0; /* the callee's now */
    j->on_result(j->guest, j, members, j->fds, n_fds);
    job_end(j);
}

static void on_sock(struct source *s, uint32_t events) {
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
        job_done(j);
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

static void send_all(int sock, const uint8_t *bytes, size_t n) {
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

/* Only the socket and the handle's files stay open. */
static void close_others(int sock, const struct handle *h) {
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

/* Regular expressions and hostile trees may ask for more than is good. Not under a sanitizer, which lives
 * on address space. */
static void bound_memory(void) {
#if !defined(__SANITIZE_ADDRESS__)
    struct rlimit limit = {JOB_MEMORY, JOB_MEMORY};
    setrlimit(RLIMIT_AS, &limit);
#endif
}

static void child_main(struct request *r, work_fn *work, const struct user *u,
                       const struct handle *h, int sock) {
    struct guest *g = r->guest;
    struct reply_head head = {0};
    close_others(sock, h);
    bound_memory();
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
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* a change of user forgets it */
    umask(0);                                  /* modes are as asked for, whatever the umask */
    if (e < 0)
        err_sys(&head.err, ERR_INTERNAL, -e, "become %s", u->name);
    else if (work(&w, &head.err) == 0)
        head.err.code = ERR_NONE;
    if (head.err.code == ERR_NONE && json_end(&out) < 0)
        err_set(&head.err, ERR_MESSAGE_TOO_LARGE, "the answer is larger than a message");
    head.bytes = head.err.code == ERR_NONE ? (uint32_t)buf_len(&g->text) : 0;
    size_t n_fds = head.err.code == ERR_NONE ? w.n_fds : 0;
    if (fd_send(sock, &head, sizeof head, w.fds, n_fds) < 0)
        _exit(1);
    send_all(sock, buf_data(&g->text), head.bytes);
    if (head.err.code == ERR_NONE && w.then) {
        close(sock);
        fd_close_all(w.fds, w.n_fds);
        w.then(&w);
    }
    _exit(0);
}

/* Work on a handle is done as whoever opened it. */
static int find_user(struct request *r, const struct handle *h, struct user *u, struct err *e) {
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
    j->sock = (struct source){.fd = -1, .on_ready = on_sock};
    buf_init(&j->reply, LINK_MESSAGE_MAX + sizeof(struct reply_head));
    timer_init(&j->limit, on_limit);
    list_init(&j->node);
    return j;
}

static int start(struct request *r, work_fn *work, job_result_fn *on_result, const struct handle *h,
                 bool is_search, struct err *e) {
    struct jobs *js = &r->guest->jobs;
    struct user user;
    int pair[2];
    if (find_user(r, h, &user, e) < 0)
        return -(int)e->code;
    if (is_search && js->n_searches >= SEARCHES_RUNNING)
        return err_set(e, ERR_LIMIT_REACHED, "%zu searches are at work", js->n_searches);
    if (js->n_running >= JOBS_RUNNING)
        return REQUEST_WAIT;
    struct job *j = job_new(r, on_result, h);
    if (!j || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        free(j);
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory for file work");
    }
    pid_t pid = fork();
    if (pid == 0)
        child_main(r, work, &user, h, pair[1]);
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
    return start(r, work, on_result, h, false, e);
}

int jobs_start_search(struct request *r, work_fn *work, struct err *e) {
    return start(r, work, jobs_answer, NULL, true, e);
}
