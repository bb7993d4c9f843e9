/* guest_link — a guest sends anything, in pieces and with descriptors, while requests come and go.
 * Each request gets at most one result, on_lost fires once and last, and no descriptor leaks. A
 * byte N of the input sends the next N bytes; 0, 254 and 255 ask, cancel and pass a descriptor. */
#include "fuzz.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "core/guest/guest_link_impl.h"
#include "core/guest/guest_notice.h"

#define WAITS 16

static unsigned n_lost;
static size_t n_asked;
static struct guest_wait waits[WAITS];

static void on_exec(struct guest_link *l, const struct guest_exec_state *state) {
    (void)l;
    CHECK(n_lost == 0 && state->exec_id.n > 0);
}
static void on_ready(struct guest_link *l) {
    CHECK(n_lost == 0);
    guest_link_has(l, "terminal");
}
static void on_notice(struct guest_link *l, const struct guest_notice *n) {
    (void)l;
    CHECK(n_lost == 0 && n->kind <= GUEST_TREE_DONE);
}
static void on_lost(struct guest_link *l, const struct err *e) {
    (void)l;
    CHECK(n_lost++ == 0 && err_face(e->code));
    for (size_t i = 0; i < WAITS; i++)
        CHECK(!guest_wait_is_on(&waits[i]));
}
static const struct guest_events events = {on_exec, on_ready, on_notice, on_lost};

static void on_answer(struct guest_wait *w, const struct guest_answer *a) {
    CHECK(n_lost == 0 && !guest_wait_is_on(w));
    CHECK(a->e ? err_face(a->e->code) != NULL : a->result->type == JSON_OBJECT);
    for (size_t i = 0; i < a->n_fds; i++)
        CHECK(a->fds[i] >= 0);
}

static void ask(struct guest_link *l) {
    struct guest_wait *w = &waits[n_asked++ % WAITS];
    guest_wait_cancel(w);
    guest_wait_init(w, on_answer);
    if (n_asked % 2) {
        guest_link_ask(l, "ping");
        guest_link_send(l, NULL, 0, w);
    } else {
        guest_files_ask(
            l, &(struct guest_file_request){.method = GUEST_LIST, .path = {.bytes = STR("/")}}, w);
    }
}

static void act(struct guest_link *l, int peer, int file, struct feed *f) {
    uint8_t what = feed_byte(f);
    struct feed piece = feed_take(f, what == 255 ? 1 : what);
    if (n_lost == 0 && what == 0)
        ask(l);
    else if (what == 254)
        guest_wait_cancel(&waits[feed_byte(f) % WAITS]);
    else if (what == 255 && piece.n > 0)
        (void)!fd_send(peer, piece.at, piece.n, &file, 1);
    else if (piece.n > 0)
        (void)!send(peer, piece.at, piece.n, MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct feed f = {data, n};
    uv_loop_t loop;
    struct deadlines deadlines;
    int fds[2], file = memfd_create("fuzz", MFD_CLOEXEC);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    log_setup(2, LOG_ERROR);
    n_lost = 0;
    n_asked = 0;
    for (size_t i = 0; i < WAITS; i++)
        guest_wait_init(&waits[i], on_answer);
    uv_loop_init(&loop);
    deadlines_init(&deadlines, &loop);
    struct transcript *t = transcript_open(-1, "nowhere", 1 << 20);
    struct guest_link *l = guest_link_open(&(struct guest_link_spec){
        .loop = &loop, .deadlines = &deadlines, .fd = fds[0], .transcript = t, .events = &events});
    CHECK(l && t);
    ask(l);
    while (f.n > 0) {
        act(l, fds[1], file, &f);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    close(fds[1]);
    for (int i = 0; i < 64 && n_lost == 0; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(n_lost == 1);
    guest_link_close(l);
    deadlines_close(&deadlines);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    transcript_close(t);
    close(file);
    return 0;
}
