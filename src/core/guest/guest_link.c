#include "core/guest/guest_link.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/guest/guest_hello.h"
#include "core/guest/guest_link_impl.h"
#include "core/guest/guest_notice.h"
#include "core/guest/guest_stream.h"

#define HELLO_US UINT64_C(10000000)
#define ARENA_BYTES ((size_t)16 << 10)
#define ARENA_MAX ((size_t)16 << 20) /* a message within its bounds needs less */

static_assert(GUEST_FDS_MAX == RPC_MESSAGE_FDS_MAX, "spec/guest.md has one bound for both");

struct guest_link {
    uv_poll_t poll;
    struct guest_stream stream;
    struct guest_hello hello;
    struct deadlines *deadlines;
    struct deadline hello_due;
    struct deadline kick; /* makes the loop report failures that happened inside a call */
    struct transcript *transcript;
    const struct guest_events *events;
    void *user;
    struct arena arena; /* memory of the message being read */

    struct json_out out; /* the request being written, at the end of the stream's tx */
    size_t out_at;
    bool asking;

    int64_t next_id;
    int64_t *asked; /* ids of unanswered requests, with or without a waiter; unordered */
    size_t n_asked;
    size_t asked_capacity;
    struct list waits;
    struct list
        refused; /* waiters whose request was not sent; their id is the negative error number */

    struct err why;
    bool failing; /* `why` is set, and the loop reports it next */
    bool lost;
    bool closing;
};

static void link_lose(struct guest_link *l, const struct err *why);
static void on_poll(uv_poll_t *poll, int status, int events);

static int link_watch(struct guest_link *l) {
    return uv_poll_start(&l->poll, UV_READABLE | (l->stream.is_full ? UV_WRITABLE : 0), on_poll);
}

/* --- requests --- */

static void link_kick(struct guest_link *l) {
    if (!l->kick.is_set)
        deadline_set(l->deadlines, &l->kick, clock_us() + 1);
}

/* Ends the link from inside a call: the loop runs link_lose later. */
static void link_fail(struct guest_link *l, int sys, const char *what) {
    if (l->failing || l->lost)
        return;
    err_sys(&l->why, ERR_GUEST_LOST, sys, "%s", what);
    l->failing = true;
    link_kick(l);
}

struct json_out *guest_link_ask(struct guest_link *l, const char *method) {
    assert(!l->asking && !l->closing);
    l->asking = true;
    l->out_at = buf_len(&l->stream.tx);
    rpc_open_request(&l->out, &l->stream.tx, l->next_id, method);
    return &l->out;
}

/* Completes the message at the end of tx. Returns ERR_NONE, or the error with which the request
 * fails. */
static enum err_code link_end_request(struct guest_link *l, size_t n_fds) {
    if (n_fds > 0)
        json_put_u64(&l->out, "fds", n_fds);
    int r = rpc_close(&l->out);
    bool is_large = buf_len(&l->stream.tx) - l->out_at > GUEST_MESSAGE_MAX;
    if (r == 0)
        r = buf_append(&l->stream.tx, "\n", 1);
    if (is_large || (r == -ENOBUFS && l->out_at + GUEST_MESSAGE_MAX < GUEST_UNREAD_MAX))
        return ERR_MESSAGE_TOO_LARGE;
    if (r == -EILSEQ)
        return ERR_INVALID_ARGUMENT;
    return r < 0 ? ERR_LIMIT_REACHED : ERR_NONE;
}

static bool link_reserve_asked(struct guest_link *l) {
    if (l->n_asked < l->asked_capacity)
        return true;
    size_t room = MAX(l->asked_capacity * 2, (size_t)8);
    int64_t *grown = realloc(l->asked, room * sizeof *grown);
    if (!grown)
        return false;
    l->asked = grown;
    l->asked_capacity = room;
    return true;
}

static enum err_code link_check_send(struct guest_link *l, size_t n_fds,
                                     const struct guest_wait *w) {
    if (l->lost || l->failing)
        return ERR_GUEST_LOST;
    if (n_fds > 0 && l->hello.greeted && !l->hello.passes_fds)
        return ERR_UNSUPPORTED;
    if (l->n_asked >= GUEST_WAITING_MAX && w != &l->hello.page)
        return ERR_LIMIT_REACHED;
    return link_reserve_asked(l) ? ERR_NONE : ERR_LIMIT_REACHED;
}

/* Sends the message at the end of tx, or queues it until the socket is writable. */
static enum err_code link_post(struct guest_link *l, const int *fds, size_t n_fds) {
    bool was_full = l->stream.is_full;
    int r = guest_stream_post(&l->stream, l->out_at, fds, n_fds);
    if (r == -ENOBUFS)
        return ERR_LIMIT_REACHED;
    if (r == 0 && l->stream.is_full != was_full)
        r = link_watch(l);
    if (r < 0)
        link_fail(l, -r, "write a request to the guest");
    return ERR_NONE;
}

/* Fails a request that was not sent. Without a waiter nobody would notice that, so the link ends
 * instead. Its owner connects again and starts from the state that the guest reports. */
static void link_refuse(struct guest_link *l, struct guest_wait *w, enum err_code code) {
    if (!w) {
        link_fail(l, 0, "a request without a waiter could not be sent");
        return;
    }
    w->id = -(int64_t)code;
    list_push_back(&l->refused, &w->in_link);
    link_kick(l);
}

void guest_link_send(struct guest_link *l, const int *fds, size_t n_fds, struct guest_wait *w) {
    assert(l->asking && n_fds <= GUEST_FDS_MAX && (!w || !guest_wait_is_on(w)));
    l->asking = false;
    enum err_code code = link_end_request(l, n_fds);
    if (code == ERR_NONE)
        code = link_check_send(l, n_fds, w);
    if (code == ERR_NONE && l->transcript)
        transcript_add(l->transcript, TRANSCRIPT_SENT,
                       (struct str){(const char *)buf_data(&l->stream.tx) + l->out_at,
                                    buf_len(&l->stream.tx) - l->out_at - 1},
                       n_fds);
    if (code == ERR_NONE)
        code = link_post(l, fds, n_fds);
    if (code != ERR_NONE) {
        buf_truncate(&l->stream.tx, l->out_at);
        link_refuse(l, w, code);
        return;
    }
    l->asked[l->n_asked++] = l->next_id;
    if (w) {
        w->id = l->next_id;
        list_push_back(&l->waits, &w->in_link);
    }
    l->next_id++;
}

void guest_wait_init(struct guest_wait *w,
                     void (*on_answer)(struct guest_wait *w, const struct guest_answer *a)) {
    *w = (struct guest_wait){.on_answer = on_answer};
    list_init(&w->in_link);
}

void guest_wait_cancel(struct guest_wait *w) {
    list_remove(&w->in_link);
}

/* --- messages of the guest --- */

static int link_broken(struct err *e, const char *what) {
    return err_set(e, ERR_GUEST_PROTOCOL, "the guest sent %s", what);
}

static int link_read_error(const struct json *error, struct err *e, int64_t *ret_next_offset,
                           struct err *why) {
    const struct json *code = json_get(error, "code");
    const struct json *message = json_get(error, "message");
    const struct json *data = json_get(error, "data");
    if (!code || code->type != JSON_INT || !message || message->type != JSON_STRING)
        return link_broken(why, "an error without code or message");
    bool is_ours = code->integer > 0 && code->integer < 1000 && err_face((int)code->integer);
    err_set(e, is_ours ? (enum err_code)code->integer : ERR_GUEST_PROTOCOL, "%.*s",
            (int)MIN(message->text.n, sizeof e->text), message->text.p);
    const struct json *sys = json_get(data, "errno");
    if (sys && sys->type == JSON_INT && sys->integer > 0 && sys->integer < 4096)
        e->sys = (int)sys->integer;
    const struct json *field = json_get(data, "field");
    if (field && field->type == JSON_STRING && field->text.n < sizeof e->field && !field->has_nul) {
        memcpy(e->field, field->text.p, field->text.n);
        e->field[field->text.n] = '\0';
    }
    const struct json *next = json_get(data, "next_offset");
    *ret_next_offset = next && next->type == JSON_INT ? MAX(next->integer, (int64_t)-1) : -1;
    return 0;
}

/* Takes the descriptors of this message. A member of the message says how many there are. */
static int link_claim_fds(struct guest_link *l, const struct rpc_message *m, int *fds,
                          size_t *ret_n, struct err *why) {
    const struct json *count = json_get(m->result, "fds");
    int64_t n = count && count->type == JSON_INT ? count->integer : 0;
    if ((count && count->type != JSON_INT) || n < 0 || n > GUEST_FDS_MAX ||
        (n > 0 && !l->hello.passes_fds))
        return link_broken(why, "an invalid number of descriptors");
    if (rpc_in_claim(&l->stream.rx, (size_t)n, fds) < 0)
        return link_broken(why, "more or fewer descriptors than its message says");
    for (size_t i = 0; i < (size_t)n; i++) {
        struct stat st;
        if (fstat(fds[i], &st) < 0 || !(S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode)) ||
            (fcntl(fds[i], F_GETFL) & O_PATH)) {
            fd_close_all(fds, (size_t)n);
            return link_broken(why, "a descriptor that is neither a file nor a pipe");
        }
    }
    *ret_n = (size_t)n;
    return 0;
}

static bool link_take_asked(struct guest_link *l, int64_t id) {
    for (size_t i = 0; i < l->n_asked; i++)
        if (l->asked[i] == id) {
            l->asked[i] = l->asked[--l->n_asked];
            return true;
        }
    return false;
}

static struct guest_wait *link_take_wait(struct guest_link *l, int64_t id) {
    LIST_FOR_EACH(it, &l->waits) {
        struct guest_wait *w = container_of(it, struct guest_wait, in_link);
        if (w->id != id)
            continue;
        list_remove(it);
        return w;
    }
    return NULL;
}

/* Passes an answer to its waiter. An answer that breaks the protocol fails its waiter first and
 * then ends the link. */
static int link_take_answer(struct guest_link *l, const struct rpc_message *m, int *fds,
                            size_t n_fds, struct err *why) {
    struct err e;
    int r = 0;
    struct guest_answer a = {.next_offset = -1, .result = m->result, .fds = fds, .n_fds = n_fds};
    if (m->kind == RPC_ERROR) {
        a.e = &e;
        if (link_read_error(m->error, &e, &a.next_offset, why) < 0)
            return -(int)why->code;
        if (m->id == 0)
            return err_set(why, ERR_GUEST_PROTOCOL, "the guest could not read a message: %s",
                           e.text);
    }
    if (!link_take_asked(l, m->id))
        return link_broken(why, "an answer without a request");
    struct guest_wait *w = link_take_wait(l, m->id);
    if (w && !a.e && w->read && (r = w->read(w, m->result, &l->arena, &a, why)) < 0)
        a = (struct guest_answer){.e = why, .next_offset = -1};
    if (w)
        w->on_answer(w, &a);
    return r;
}

static int link_take_notice(struct guest_link *l, const struct rpc_message *m, struct err *why) {
    struct guest_notice n;
    int r = guest_notice_read(m->method, m->params, &l->arena, &n, why);
    if (r > 0)
        l->events->on_notice(l, &n);
    return MIN(r, 0);
}

static int link_take_message(struct guest_link *l, struct str text, struct err *why) {
    struct rpc_message m;
    int fds[GUEST_FDS_MAX];
    size_t n_fds = 0;
    arena_reset(&l->arena);
    int r = rpc_parse(&l->arena, text, &m);
    if (r == -ENOMEM)
        err_set(why, ERR_GUEST_LOST, "no memory for a message of the guest");
    else if (r == -E2BIG)
        link_broken(why, "a message that is nested too deeply or has too many parts");
    else if (r < 0)
        link_broken(why, "an invalid message");
    else
        r = link_claim_fds(l, &m, fds, &n_fds, why);
    if (l->transcript)
        transcript_add(l->transcript, TRANSCRIPT_GOT, text, n_fds);
    if (r < 0)
        return r;
    if (m.kind == RPC_NOTIFICATION && l->hello.greeted)
        r = link_take_notice(l, &m, why);
    else if (m.kind == RPC_NOTIFICATION || m.kind == RPC_REQUEST)
        r = link_broken(why,
                        m.kind == RPC_REQUEST ? "a request" : "a notification before its hello");
    else
        r = link_take_answer(l, &m, fds, n_fds, why);
    fd_close_all(fds, n_fds);
    return r;
}

static int link_take_messages(struct guest_link *l, struct err *why) {
    struct str text;
    int r;
    while (!l->closing && !l->lost && (r = rpc_in_next(&l->stream.rx, &text)) != 0) {
        if (r == -EMSGSIZE)
            return link_broken(why, "a message that is too large");
        if (r < 0)
            return link_broken(why, "neither a line nor a header");
        if (link_take_message(l, text, why) < 0)
            return -(int)why->code;
    }
    return 0;
}

static int link_receive(struct guest_link *l, struct err *why) {
    int r = guest_stream_receive(&l->stream);
    if (r == 0)
        return 0;
    if (r == -EMSGSIZE)
        return link_broken(why, "too many descriptors");
    /* Without these descriptors, the link cannot match later ones with their messages. */
    if (r == -EMFILE)
        return err_sys(why, ERR_GUEST_LOST, EMFILE, "take descriptors from the guest");
    if (r < 0)
        return err_sys(why, ERR_GUEST_LOST, r == -EPIPE ? 0 : -r, "the guest closed the link");
    if (arena_init(&l->arena, ARENA_BYTES, ARENA_MAX) < 0)
        return err_set(why, ERR_GUEST_LOST, "no memory for a message of the guest");
    r = link_take_messages(l, why);
    arena_done(&l->arena);
    return r;
}

/* Returns 0, or -errno when the stream is broken. */
static int link_write_more(struct guest_link *l) {
    int r = guest_stream_flush(&l->stream);
    return r < 0 || l->stream.is_full ? r : link_watch(l);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
    struct guest_link *l = poll->data;
    struct err why;
    if (l->failing) {
        link_lose(l, &l->why);
        return;
    }
    int r = status == 0 && (events & UV_WRITABLE) ? link_write_more(l) : status;
    if (r < 0)
        err_sys(&why, ERR_GUEST_LOST, -r, "the link broke");
    else if (events & UV_READABLE)
        r = link_receive(l, &why);
    if (r < 0)
        link_lose(l, &why);
    else if (!l->closing)
        buf_trim(&l->stream.rx.bytes); /* free the buffer, because most links are idle */
}

/* --- hello, loss and close --- */

static void on_hello(struct guest_link *l, const struct err *e) {
    if (e) {
        link_lose(l, e);
        return;
    }
    deadline_clear(l->deadlines, &l->hello_due);
    l->events->on_ready(l);
}

static void on_hello_due(struct deadline *d) {
    struct err why;
    err_set(&why, ERR_GUEST_LOST, "the guest did not answer hello in time");
    link_lose(container_of(d, struct guest_link, hello_due), &why);
}

static void link_explain(enum err_code code, struct err *e) {
    if (code == ERR_LIMIT_REACHED)
        err_set(e, code, "too many requests to the guest are pending");
    else
        err_set(e, code, "%s", err_face(code)->meaning);
}

/* Fails the refused requests. Requests that the waiters' callbacks add wait for the next turn, so
 * that a waiter cannot keep this loop running. */
static void link_answer_refused(struct guest_link *l) {
    size_t n = 0;
    LIST_FOR_EACH(it, &l->refused)
        n++;
    for (; n > 0 && !l->closing && !list_is_empty(&l->refused); n--) {
        struct guest_wait *w =
            container_of(list_pop_front(&l->refused), struct guest_wait, in_link);
        struct err e;
        link_explain((enum err_code) - w->id, &e);
        w->on_answer(w, &(struct guest_answer){.e = &e, .next_offset = -1});
    }
}

/* Fails every waiter, then reports to the owner. Each callback may close the link. */
static void link_lose(struct guest_link *l, const struct err *why) {
    if (l->lost || l->closing)
        return;
    struct err e = *why;
    struct guest_answer a = {.e = &e, .next_offset = -1};
    l->lost = true;
    uv_poll_stop(&l->poll);
    deadline_clear(l->deadlines, &l->hello_due);
    guest_hello_end(&l->hello);
    guest_stream_end(&l->stream);
    if (l->transcript)
        transcript_flush(l->transcript);
    for (struct list *it; !l->closing && (it = list_pop_front(&l->waits));) {
        struct guest_wait *w = container_of(it, struct guest_wait, in_link);
        w->on_answer(w, &a);
    }
    link_answer_refused(l);
    if (!l->closing)
        l->events->on_lost(l, &e);
}

static void on_kick(struct deadline *d) {
    struct guest_link *l = container_of(d, struct guest_link, kick);
    link_answer_refused(l);
    if (l->failing)
        link_lose(l, &l->why);
}

static void on_closed(uv_handle_t *handle) {
    struct guest_link *l = handle->data;
    guest_stream_done(&l->stream);
    guest_hello_done(&l->hello);
    free(l->asked);
    free(l);
}

void guest_link_close(struct guest_link *l) {
    if (l->closing)
        return;
    l->closing = true;
    deadline_clear(l->deadlines, &l->hello_due);
    deadline_clear(l->deadlines, &l->kick);
    guest_hello_end(&l->hello);
    guest_stream_end(&l->stream);
    while (list_pop_front(&l->waits) || list_pop_front(&l->refused))
        continue;
    uv_close((uv_handle_t *)&l->poll, on_closed);
}

struct guest_link *guest_link_open(const struct guest_link_spec *spec) {
    struct guest_link *l = calloc(1, sizeof *l);
    if (!l || uv_poll_init(spec->loop, &l->poll, spec->fd) < 0) {
        close(spec->fd);
        free(l);
        return NULL;
    }
    l->poll.data = l;
    l->deadlines = spec->deadlines;
    l->transcript = spec->transcript;
    l->events = spec->events;
    l->user = spec->user;
    l->next_id = 1;
    guest_stream_init(&l->stream, spec->fd);
    list_init(&l->waits);
    list_init(&l->refused);
    deadline_init(&l->hello_due, on_hello_due);
    deadline_init(&l->kick, on_kick);
    guest_hello_begin(&l->hello, l, spec, on_hello);
    deadline_set(l->deadlines, &l->hello_due, clock_us() + HELLO_US);
    if (link_watch(l) < 0) {
        guest_link_close(l);
        return NULL;
    }
    return l;
}

void guest_link_give(struct guest_link *l, const struct guest_events *events, void *user) {
    l->events = events;
    l->user = user;
}

void *guest_link_user(const struct guest_link *l) {
    return l->user;
}

bool guest_link_has(const struct guest_link *l, const char *capability) {
    return guest_hello_has(&l->hello, capability);
}

bool guest_link_passes_fds(const struct guest_link *l) {
    return l->hello.passes_fds;
}
