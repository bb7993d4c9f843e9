#include "guest/files/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "guest/guest.h"
#include "guest/handles.h"
#include "guest/path.h"
#include "guest/reply.h"

#define CHUNK_MAX 49152

struct archive {
    struct child child;
    struct later grave;
    struct guest *guest;
    uint64_t handle;
    struct source sock; /* receives the result of the child */
    struct archive_result result;
    size_t result_n;
    /* The members below are for a link that passes no files. */
    struct source pipe; /* in the loop only while a request waits */
    int pipe_fd;        /* -1: closed, or passed to the daemon */
    uint64_t offset;
    struct {
        int64_t id; /* id of the waiting request; 0: none */
        uint64_t generation;
        size_t max;
        char *data;
    } waiting;
};

int archive_begin(struct work *w, bool is_input, int *ret_pipe, int *ret_sock, struct err *e) {
    int pipe_fds[2], pair[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "make a pipe");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "make a socket pair");
    *ret_pipe = pipe_fds[is_input ? 0 : 1];
    *ret_sock = pair[0];
    w->fds[0] = pipe_fds[is_input ? 1 : 0];
    w->fds[1] = pair[1];
    w->n_fds = 2;
    return 0;
}

void archive_end(int sock, const struct archive_result *result) {
    (void)!send(sock, result, sizeof *result, MSG_NOSIGNAL);
}

static void archive_on_grave(struct later *l) {
    free(container_of(l, struct archive, grave));
}

static void archive_close_sock(struct archive *a) {
    int fd = loop_remove(&a->guest->loop, &a->sock);
    if (fd >= 0) {
        close(fd);
        a->guest->handles.n_archives--;
    }
}

static void archive_drop_waiting(struct archive *a) {
    loop_remove(&a->guest->loop, &a->pipe);
    free(a->waiting.data);
    a->waiting.data = NULL;
    a->waiting.id = 0;
}

void archive_close(struct archive *a) {
    child_kill(&a->child);
    archive_drop_waiting(a);
    archive_close_sock(a);
    if (a->pipe_fd >= 0)
        close(a->pipe_fd);
    loop_free_later(&a->guest->loop, &a->grave, archive_on_grave);
}

static void archive_report(struct archive *a) {
    struct guest *g = a->guest;
    struct json_out o;
    if (a->result_n < sizeof a->result)
        err_set(&a->result.err, ERR_INTERNAL, "the process that did the work was killed");
    buf_clear(&g->text);
    rpc_open_notification(&o, &g->text, "tree_done");
    json_put_u64(&o, "handle", a->handle);
    json_put_u64(&o, "files", a->result.files);
    json_put_u64(&o, "directories", a->result.directories);
    json_put_u64(&o, "total_bytes", a->result.total_bytes);
    json_put_u64(&o, "skipped_special", a->result.skipped_special);
    json_put_u64(&o, "skipped_unreadable", a->result.skipped_unreadable);
    if (a->result.err.code != ERR_NONE) {
        json_key(&o, "error");
        rpc_put_error(&o, &a->result.err, -1);
    }
    if (rpc_close(&o) < 0 || link_send_buf(&g->link, &g->text) < 0)
        link_fail(&g->link);
}

static void archive_on_sock(struct source *s, uint32_t events) {
    struct archive *a = container_of(s, struct archive, sock);
    (void)events;
    char *to = (char *)&a->result + a->result_n;
    ssize_t n = recv(s->fd, to, sizeof a->result - a->result_n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    a->result_n += n > 0 ? (size_t)n : 0;
    if (n > 0 && a->result_n < sizeof a->result)
        return;
    archive_close_sock(a);
    archive_report(a);
}

static void archive_refuse(struct guest *g, struct job *j, const int *fds, size_t n_fds) {
    struct err e;
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]);
    child_kill(&j->child);
    err_set(&e, ERR_LIMIT_REACHED, "%d handles or %d archives are open, the maximum", HANDLES_MAX,
            ARCHIVES_MAX);
    reply_error(g, j->generation, j->id, &e, -1);
}

/* Takes ownership of the job's child, which keeps running, and of the socket. */
static struct archive *archive_new(struct guest *g, struct job *j, int pipe, int sock) {
    struct archive *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct archive){.guest = g, .pipe_fd = -1};
    a->sock = (struct source){.fd = -1, .on_ready = archive_on_sock};
    a->pipe = (struct source){.fd = -1};
    if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0 || loop_add(&g->loop, &a->sock, sock, EPOLLIN) < 0) {
        free(a);
        return NULL;
    }
    if (!link_passes_files(&g->link)) {
        fcntl(pipe, F_SETFL, O_NONBLOCK);
        a->pipe_fd = pipe;
    }
    child_move(&a->child, &j->child);
    g->handles.n_archives++;
    return a;
}

static void archive_on_begun(struct guest *g, struct job *j, struct str members, const int *fds,
                             size_t n_fds) {
    bool wanted = n_fds == 2 && g->link.connected && g->link.generation == j->generation &&
                  g->handles.n_archives < ARCHIVES_MAX;
    struct handle *h = wanted ? handles_add(&g->handles) : NULL;
    struct archive *a = h ? archive_new(g, j, fds[0], fds[1]) : NULL;
    char text[64];
    (void)members;
    if (!a) {
        if (h)
            handles_close(h);
        archive_refuse(g, j, fds, n_fds);
        return;
    }
    h->archive = a;
    h->close_archive = archive_close;
    a->handle = h->id;
    bool passes = link_passes_files(&g->link);
    int n = snprintf(text, sizeof text, "\"handle\":%llu,\"fds\":%d", (unsigned long long)h->id,
                     passes);
    reply_send(g, j->generation, j->id, (struct str){text, (size_t)n}, fds, passes);
}

static int archive_start(struct request *r, work_fn *work, struct err *e) {
    if (r->guest->handles.n_archives >= ARCHIVES_MAX)
        return err_set(e, ERR_LIMIT_REACHED,
                       "%d archives are being packed or unpacked, the maximum", ARCHIVES_MAX);
    return jobs_start(r, work, archive_on_begun, NULL, e);
}

int archive_method_pack(struct request *r, struct err *e) {
    return archive_start(r, pack_work, e);
}

int archive_method_unpack(struct request *r, struct err *e) {
    return archive_start(r, unpack_work, e);
}

static int archive_check_chunk(const struct archive *a, uint64_t offset, int direction,
                               struct err *e) {
    if (a->waiting.id != 0)
        return err_field(e, "handle", "must have no other chunk in progress");
    if (a->pipe_fd < 0 || (fcntl(a->pipe_fd, F_GETFL) & O_ACCMODE) != direction)
        return err_field(e, "handle", "must be %s",
                         direction == O_RDONLY ? "being packed" : "being unpacked");
    if (offset != a->offset)
        return err_field(e, "offset", "must be %llu, got %llu", (unsigned long long)a->offset,
                         (unsigned long long)offset);
    return 0;
}

/* Returns 1 after it read bytes or the end of the stream and wrote the members of the reply.
 * Returns 0 when the child has written nothing yet. */
static int archive_try_read(struct archive *a, size_t max, struct json_out *o, struct err *e) {
    uint8_t *bytes = a->guest->scratch;
    ssize_t n = read(a->pipe_fd, bytes, max);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return err_sys(e, ERR_INTERNAL, errno, "read the archive");
    a->offset += (uint64_t)n;
    json_key(o, "data_b64");
    json_base64(o, bytes, (size_t)n);
    json_put_bool(o, "end", n == 0);
    return 1;
}

/* Returns 1 when the child took bytes, 0 when it cannot take any yet. */
static int archive_try_write(struct archive *a, struct str data, struct json_out *o,
                             struct err *e) {
    ssize_t n = data.n > 0 ? write(a->pipe_fd, data.p, data.n) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0) /* the child failed, and tree_done reports why */
        return err_sys(e, ERR_TREE_INVALID, errno, "write to the archive");
    if (data.n == 0) {
        close(a->pipe_fd);
        a->pipe_fd = -1;
    }
    a->offset += (uint64_t)n;
    json_put_u64(o, "next_offset", a->offset);
    return 1;
}

static void archive_on_pipe(struct source *s, uint32_t events) {
    struct archive *a = container_of(s, struct archive, pipe);
    struct guest *g = a->guest;
    struct str data = {a->waiting.data, a->waiting.max};
    struct json_out o;
    struct buf text;
    struct err e;
    (void)events;
    buf_init(&text, 2 * CHUNK_MAX);
    json_begin(&o, &text);
    int r =
        data.p ? archive_try_write(a, data, &o, &e) : archive_try_read(a, a->waiting.max, &o, &e);
    int64_t id = a->waiting.id;
    if (r != 0)
        archive_drop_waiting(a);
    if (r < 0)
        reply_error(g, a->waiting.generation, id, &e, -1);
    else if (r > 0)
        reply_send(g, a->waiting.generation, id,
                   (struct str){(const char *)buf_data(&text), buf_len(&text)}, NULL, 0);
    buf_done(&text);
}

static int archive_wait_pipe(struct archive *a, struct request *r, uint32_t events, struct err *e) {
    a->pipe.on_ready = archive_on_pipe;
    if (loop_add(&a->guest->loop, &a->pipe, a->pipe_fd, events) < 0)
        return err_sys(e, ERR_INTERNAL, errno, "wait for the archive");
    a->waiting.id = r->id;
    a->waiting.generation = r->generation;
    return REQUEST_LATER;
}

int archive_read(struct archive *a, struct request *r, uint64_t offset, size_t max, struct err *e) {
    if (archive_check_chunk(a, offset, O_RDONLY, e) < 0)
        return -(int)e->code;
    int moved = archive_try_read(a, max, r->out, e);
    if (moved != 0)
        return moved < 0 ? moved : 0;
    a->waiting.max = max;
    return archive_wait_pipe(a, r, EPOLLIN, e);
}

int archive_write(struct archive *a, struct request *r, uint64_t offset, struct str data,
                  struct err *e) {
    if (archive_check_chunk(a, offset, O_WRONLY, e) < 0)
        return -(int)e->code;
    int moved = archive_try_write(a, data, r->out, e);
    if (moved != 0)
        return moved < 0 ? moved : 0;
    char *copy = malloc(data.n);
    if (!copy)
        return err_set(e, ERR_OUT_OF_MEMORY, "buffer a chunk: out of memory");
    memcpy(copy, data.p, data.n);
    a->waiting.data = copy;
    a->waiting.max = data.n;
    int s = archive_wait_pipe(a, r, EPOLLOUT, e);
    if (s < 0) {
        free(copy);
        a->waiting.data = NULL;
    }
    return s;
}
