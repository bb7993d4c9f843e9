#include "unit/guest_peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/guest/guest_notice.h"

#define TIMEOUT_US 20000000

static void tell(struct peer *p, const char *what, struct str about) {
    char word[96];
    size_t n = strlen(p->log);
    CHECK(!p->in_call && p->link);
    snprintf(word, sizeof word, "%s%.*s", what, (int)about.n, about.p);
    snprintf(p->log + n, sizeof p->log - n, "%s ", word);
    if (p->close_at && strcmp(p->close_at, word) == 0)
        guest_link_close(TAKE(p->link));
}

static struct peer *of(struct guest_link *l) {
    return guest_link_user(l);
}
static void on_exec(struct guest_link *l, const struct guest_exec_state *state) {
    tell(of(l), "exec:", state->exec_id);
}
static void on_ready(struct guest_link *l) {
    tell(of(l), "ready", STR(""));
}
static void on_notice(struct guest_link *l, const struct guest_notice *n) {
    static const char *const names[] = {"grew", "exited", "stdin_room", "changed", "tree_done"};
    tell(of(l), "notice:", str_of(names[n->kind]));
}
static void on_lost(struct guest_link *l, const struct err *e) {
    of(l)->last = *e;
    tell(of(l), "lost:", str_of(err_face(e->code)->name));
}
static const struct guest_events events = {on_exec, on_ready, on_notice, on_lost};

void peer_open_on(struct peer *p, int fd) {
    struct transcript *t = p->transcript;
    memset(p, 0, sizeof *p);
    p->transcript = t;
    p->fd = -1;
    uv_loop_init(&p->loop);
    deadlines_init(&p->deadlines, &p->loop);
    uv_ref(
        (uv_handle_t *)&p->deadlines.timer); /* in the daemon, other handles keep the loop alive */
    p->in_call = true;
    p->link = guest_link_open(&(struct guest_link_spec){.loop = &p->loop,
                                                        .deadlines = &p->deadlines,
                                                        .fd = fd,
                                                        .transcript = t,
                                                        .run_id = "r1",
                                                        .sandbox_id = "demo",
                                                        .incarnation = 3,
                                                        .lease_ms = 5000,
                                                        .events = &events,
                                                        .user = p});
    p->in_call = false;
}

void peer_open(struct peer *p) {
    int fds[2];
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    peer_open_on(p, fds[0]);
    p->fd = fds[1];
}

void peer_greet(struct peer *p) {
    peer_open(p);
    char line[1024];
    size_t n_fds = 0;
    CHECK(peer_hears(p, line, sizeof line, NULL, &n_fds) > 0);
    peer_says(p, HELLO_ANSWER);
    CHECK_LOG(p, "ready ");
}

void peer_close(struct peer *p) {
    if (p->link)
        guest_link_close(TAKE(p->link));
    if (p->fd >= 0)
        close(p->fd);
    deadlines_close(&p->deadlines);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&p->loop), 0);
}

static void on_answer(struct guest_wait *w, const struct guest_answer *a) {
    struct request *r = container_of(w, struct request, wait);
    struct peer *p = r->peer;
    r->next_offset = a->next_offset;
    CHECK(!guest_wait_is_on(w));
    CHECK(!a->e == !!a->result);
    if (a->e)
        p->last = *a->e;
    if (r->keeps && a->n_fds > 0)
        r->kept_fd = TAKE_FD(a->fds[0]);
    if (p->asks_in_callbacks) {
        p->asks_in_callbacks = false;
        peer_ask(p, (size_t)(r - p->requests), "again", NULL, 0);
    }
    char word[64];
    snprintf(word, sizeof word, "%s=%s", r->name, a->e ? err_face(a->e->code)->name : "ok");
    tell(p, word, STR(""));
}

struct guest_wait *peer_wait(struct peer *p, size_t slot) {
    struct request *r = &p->requests[slot];
    *r = (struct request){.peer = p, .kept_fd = -1};
    snprintf(r->name, sizeof r->name, "r%zu", slot);
    guest_wait_init(&r->wait, on_answer);
    return &r->wait;
}

struct request *peer_begin(struct peer *p, size_t slot, const char *method,
                           struct json_out **ret_params) {
    struct request *r = container_of(peer_wait(p, slot), struct request, wait);
    p->in_call = true;
    *ret_params = guest_link_ask(p->link, method);
    return r;
}

struct request *peer_send(struct request *r, const int *fds, size_t n_fds) {
    guest_link_send(r->peer->link, fds, n_fds, &r->wait);
    r->peer->in_call = false;
    return r;
}

struct request *peer_ask(struct peer *p, size_t slot, const char *method, const int *fds,
                         size_t n_fds) {
    struct json_out *o;
    struct request *r = peer_begin(p, slot, method, &o);
    json_put_str(o, "name", str_of(r->name));
    return peer_send(r, fds, n_fds);
}

void peer_ask_nobody(struct peer *p, const char *method) {
    p->in_call = true;
    guest_link_ask(p->link, method);
    guest_link_send(p->link, NULL, 0, NULL);
    p->in_call = false;
}

void peer_says_bytes(struct peer *p, const void *bytes, size_t n, const int *fds, size_t n_fds) {
    if (n_fds > 0) {
        CHECK_INT(fd_send(p->fd, bytes, n, fds, n_fds), 0);
        return;
    }
    for (const char *at = bytes; n > 0;) {
        ssize_t w = send(p->fd, at, n, MSG_NOSIGNAL);
        if (w < 0 && errno != EAGAIN)
            return; /* the link was disconnected */
        if (w < 0) {
            uv_run(&p->loop, UV_RUN_NOWAIT);
            continue;
        }
        at += w;
        n -= (size_t)w;
    }
}

void peer_says(struct peer *p, const char *text) {
    peer_says_bytes(p, text, strlen(text), NULL, 0);
}

size_t peer_hears(struct peer *p, char *line, size_t cap, int *fds, size_t *n_fds) {
    size_t n = 0;
    uint64_t end = clock_us() + TIMEOUT_US;
    *n_fds = 0;
    while (n + 1 < cap && clock_us() < end) {
        int got[GUEST_FDS_MAX];
        size_t n_got = 0;
        ssize_t r = fd_recv(p->fd, line + n, 1, got, GUEST_FDS_MAX, &n_got);
        if (r == -EAGAIN) {
            uv_run(&p->loop, UV_RUN_NOWAIT);
            continue;
        }
        if (r <= 0)
            break;
        if (n_got > 0 && fds) {
            CHECK_INT(n, 0); /* descriptors arrive with the first byte */
            memcpy(fds, got, n_got * sizeof got[0]);
            *n_fds = n_got;
        }
        if (line[n++] == '\n')
            break;
    }
    line[n] = '\0';
    return n;
}

bool peer_until(struct peer *p, const char *word) {
    uint64_t end = clock_us() + TIMEOUT_US;
    for (int turn = 0; word ? clock_us() < end : turn < 4; turn++) {
        uv_run(&p->loop, UV_RUN_NOWAIT);
        if (word && strstr(p->log, word))
            return true;
    }
    return false;
}

size_t open_fds(void) {
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}
