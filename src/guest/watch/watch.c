#include "guest/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "guest/guest.h"
#include "guest/params.h"
#include "guest/reply.h"
#include "guest/watch/watcher.h"

struct watch {
    struct list node;
    struct later grave;
    struct guest *guest;
    struct child child;
    uint64_t id;
    struct source sock;
    struct buf in;
};

void watches_init(struct watches *ws) {
    *ws = (struct watches){0};
    list_init(&ws->all);
}

static void watch_on_grave(struct later *l) {
    struct watch *w = container_of(l, struct watch, grave);
    buf_done(&w->in);
    free(w);
}

static void watch_close(struct watch *w) {
    child_kill(&w->child);
    close(loop_remove(&w->guest->loop, &w->sock));
    list_remove(&w->node);
    w->guest->watches->count--;
    loop_free_later(&w->guest->loop, &w->grave, watch_on_grave);
}

void watches_close_all(struct watches *ws) {
    while (!list_is_empty(&ws->all))
        watch_close(container_of(ws->all.next, struct watch, node));
}

static void watch_send(struct watch *w, struct str members) {
    struct guest *g = w->guest;
    struct json_out o;
    buf_clear(&g->text);
    rpc_open_notification(&o, &g->text, "changed");
    json_put_u64(&o, "watch_id", w->id);
    json_raw(&o, members);
    if (rpc_close(&o) < 0 || link_send_buf(&g->link, &g->text) < 0)
        link_fail(&g->link);
}

/* The child exited without `ended`, so another process killed it. */
static void watch_on_child_gone(struct watch *w) {
    watch_send(w, STR("\"changes\":[],\"resync\":\"overflow\",\"ended\":true"));
    watch_close(w);
}

/* Forwards complete messages while the daemon reads. Returns false when the watch has ended. */
static bool watch_forward(struct watch *w) {
    struct watcher_head head;
    while (!link_is_busy(&w->guest->link) && buf_len(&w->in) >= sizeof head) {
        memcpy(&head, buf_data(&w->in), sizeof head);
        if (buf_len(&w->in) < sizeof head + head.bytes)
            return true;
        watch_send(w, (struct str){(const char *)buf_data(&w->in) + sizeof head, head.bytes});
        buf_consume(&w->in, sizeof head + head.bytes);
        if (head.is_last) {
            watch_close(w);
            return false;
        }
    }
    return true;
}

bool watches_turn(struct watches *ws) {
    bool is_sent = false;
    LIST_FOR_EACH(it, &ws->all) {
        struct watch *w = container_of(it, struct watch, node);
        struct link *l = &w->guest->link;
        size_t before = buf_len(&l->tx);
        bool lives = link_is_busy(l) || watch_forward(w);
        if (lives)
            loop_set(&w->guest->loop, &w->sock, link_is_busy(l) ? 0 : EPOLLIN);
        is_sent |= buf_len(&l->tx) > before;
    }
    return is_sent;
}

static void watch_on_sock(struct source *s, uint32_t events) {
    struct watch *w = container_of(s, struct watch, sock);
    (void)events;
    uint8_t *at;
    if (!watch_forward(w))
        return;
    size_t max = MIN((size_t)65536, buf_available(&w->in));
    if (max == 0 || link_is_busy(&w->guest->link))
        return; /* watches_turn resumes when the daemon reads again */
    if (buf_reserve(&w->in, max, &at) < 0)
        return;
    ssize_t n = recv(s->fd, at, max, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        watch_on_child_gone(w);
        return;
    }
    buf_commit(&w->in, (size_t)n);
    watch_forward(w);
}

static struct watch *watch_new(struct guest *g, struct job *j, int sock) {
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->guest = g;
    w->sock = (struct source){.fd = -1, .on_ready = watch_on_sock};
    if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0 || loop_add(&g->loop, &w->sock, sock, EPOLLIN) < 0) {
        free(w);
        return NULL;
    }
    buf_init(&w->in, WATCHER_MESSAGE_MAX + sizeof(struct watcher_head));
    child_move(&w->child, &j->child);
    list_push_back(&g->watches->all, &w->node);
    g->watches->count++;
    w->id = ++g->watches->last_id;
    return w;
}

static void watch_on_begun(struct guest *g, struct job *j, struct str members, const int *fds,
                           size_t n_fds) {
    bool wanted = n_fds == 1 && g->link.connected && g->link.generation == j->generation &&
                  g->watches->count < WATCHES_MAX;
    struct watch *w = wanted ? watch_new(g, j, fds[0]) : NULL;
    struct err e;
    if (!w) {
        child_kill(&j->child);
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        err_set(&e, ERR_LIMIT_REACHED, "%d watches are open, the maximum", WATCHES_MAX);
        reply_error(g, j->generation, j->id, &e, -1);
        return;
    }
    struct buf text;
    struct json_out o;
    buf_init(&text, LINK_MESSAGE_MAX);
    json_begin(&o, &text);
    json_put_u64(&o, "watch_id", w->id);
    json_raw(&o, members);
    if (json_end(&o) == 0)
        reply_send(g, j->generation, j->id,
                   (struct str){(const char *)buf_data(&text), buf_len(&text)}, NULL, 0);
    buf_done(&text);
}

int watch_method_watch(struct request *r, struct err *e) {
    if (r->guest->watches->count >= WATCHES_MAX)
        return err_set(e, ERR_LIMIT_REACHED, "%d watches are open, the maximum", WATCHES_MAX);
    return jobs_start(r, watcher_work, watch_on_begun, NULL, e);
}

int watch_method_unwatch(struct request *r, struct err *e) {
    int64_t id;
    if (params_need_int(r->params, "watch_id", 1, PARAMS_OFFSET_MAX, &id, e) < 0)
        return -(int)e->code;
    LIST_FOR_EACH(it, &r->guest->watches->all) {
        struct watch *w = container_of(it, struct watch, node);
        if (w->id == (uint64_t)id) {
            watch_close(w);
            return 0;
        }
    }
    return err_field(e, "watch_id", "must be an open watch, got %lld", (long long)id);
}
