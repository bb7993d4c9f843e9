/* file_download_tree — DownloadTree: reads a tar stream from the pipe of a child of the guest,
 * which packs the tree.
 *
 * The daemon reads when the client accepts messages, so a slow client slows the child and costs one
 * buffer. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "api/subject.h"
#include "api/file/file_answer.h"
#include "api/file/file_target.h"
#include "api/file/file_tree.h"
#include "api/heartbeat.h"
#include "api/methods.h"
#include "core/files/file_pipe.h"
#include "wire/gzip.h"

#define CHUNK_BYTES 262144
#define EXCLUDES_MAX 256

struct packing {
    struct call *call;
    struct file_target target;
    struct file_call *file;
    struct file_pipe *pipe; /* NULL: not open yet, or at its end */
    struct gzip_stream *gzip;
    bool is_open;
    bool is_full; /* call_send returned FULL: wait for on_writable */
    bool has_all; /* all bytes were read from the pipe */
    bool is_over; /* the guest reported the outcome */
    struct guest_tree_done outcome;
    uint64_t total; /* bytes sent */
    uint64_t number;
    struct heartbeat heartbeat;
};

/* --- the ends --- */

static void download_release(struct packing *p) {
    struct caller who;
    struct err ignored;
    if (p->file && p->is_open) {
        context_caller(p->call, &who);
        struct file_audit audit = {.operation =
                                       BERM__V1__FILE_OPERATION__FILE_OPERATION_DOWNLOAD_TREE,
                                   .path = p->target.path.path,
                                   .bytes_moved = p->total};
        (void)!file_call_record(p->file, &audit, &(struct change){.who = &who}, (struct str){0},
                                &ignored);
    }
    heartbeat_stop(&p->heartbeat);
    file_pipe_close(TAKE(p->pipe));
    file_call_close(TAKE(p->file));
    gzip_stream_free(TAKE(p->gzip));
}

static void download_fail(struct packing *p, const struct err *e) {
    struct call *c = p->call;
    struct err reported = *e;
    if (!reported.subject)
        err_about(&reported, "sandbox_id", p->target.sandbox_id);
    download_release(p);
    call_finish(c, &reported);
}

/* --- messages --- */

static enum call_push download_send(struct packing *p, Berm__V1__DownloadTreeResponse *m) {
    m->sequence = ++p->number;
    heartbeat_sent(&p->heartbeat);
    enum call_push sent = call_send(p->call, &m->base);
    if (sent == CALL_FULL)
        p->is_full = true;
    return sent;
}

/* Sends n bytes. Returns false if the call is over. */
static bool download_send_data(struct packing *p, uint8_t *bytes, size_t n) {
    Berm__V1__DownloadTreeResponse m = BERM__V1__DOWNLOAD_TREE_RESPONSE__INIT;
    if (n == 0)
        return true;
    m.part_case = BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_DATA;
    m.data = (ProtobufCBinaryData){n, bytes};
    p->total += n;
    return download_send(p, &m) != CALL_GONE;
}

static void download_send_end(struct packing *p) {
    struct call *c = p->call;
    Berm__V1__DownloadTreeResponse m = BERM__V1__DOWNLOAD_TREE_RESPONSE__INIT;
    Berm__V1__DownloadTreeEnd end = BERM__V1__DOWNLOAD_TREE_END__INIT;
    end.files = p->outcome.files;
    end.directories = p->outcome.directories;
    end.total_bytes = p->outcome.total_bytes;
    end.skipped_special = p->outcome.skipped_special;
    end.skipped_unreadable = p->outcome.skipped_unreadable;
    m.part_case = BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_END;
    m.end = &end;
    if (download_send(p, &m) == CALL_GONE)
        return;
    download_release(p);
    call_finish(c, NULL);
}

/* --- bytes --- */

/* Compresses n bytes and sends the result; `is_last` ends the stream. Returns false if the call is
 * over. */
static bool download_send_compressed(struct packing *p, size_t n, bool is_last) {
    uint8_t *packed = context_of(p->call)->scratch[0], *squeezed = context_of(p->call)->scratch[1];
    struct gzip_piece piece = {packed, n, squeezed, CONTEXT_SCRATCH};
    struct err e;
    for (;;) {
        int r = gzip_stream_step(p->gzip, &piece, is_last);
        if (r < 0) {
            answer_no_memory(&e);
            download_fail(p, &e);
            return false;
        }
        bool is_done = piece.n_in == 0 && piece.n_out > 0 && (r == 1 || !is_last);
        if (!download_send_data(p, squeezed, CONTEXT_SCRATCH - piece.n_out))
            return false;
        if (is_done)
            return true;
        piece.out = squeezed;
        piece.n_out = CONTEXT_SCRATCH;
    }
}

/* Sends one piece. Returns false if the call is over or the pipe is empty. */
static bool download_step(struct packing *p) {
    struct err e;
    ssize_t n = file_pipe_read(p->pipe, context_of(p->call)->scratch[0], CONTEXT_SCRATCH);
    if (n == -EAGAIN) {
        file_pipe_wait(p->pipe);
        return false;
    }
    if (n < 0) {
        err_sys(&e, ERR_INTERNAL, (int)-n, "read the tree");
        download_fail(p, &e);
        return false;
    }
    p->has_all = n == 0;
    if (p->has_all)
        file_pipe_close(TAKE(p->pipe));
    return p->gzip ? download_send_compressed(p, (size_t)n, n == 0)
                   : download_send_data(p, context_of(p->call)->scratch[0], (size_t)n);
}

/* Sends until the client is full. The stream ends only when the guest has reported the outcome,
 * because the pipe also ends after a failure. */
static void download_pump(struct packing *p) {
    while (!p->is_full && !p->has_all)
        if (!download_step(p))
            return;
    if (p->is_full || !p->is_over)
        return;
    download_send_end(p);
}

static void download_on_ready(void *user) {
    download_pump(user);
}

/* --- the guest --- */

static void download_on_answer(void *user, const struct guest_answer *a) {
    struct packing *p = user;
    struct err e;
    if (a->e) {
        e = file_target_error("", p->target.sandbox_id, a->e);
        download_fail(p, &e);
        return;
    }
    if (p->is_open) {
        if (p->pipe && file_pipe_answer(p->pipe, a, &e) < 0)
            download_fail(p, &e);
        return;
    }
    p->pipe = file_pipe_open(p->file, a, O_RDONLY, download_on_ready, p);
    if (!p->pipe) {
        answer_no_memory(&e);
        download_fail(p, &e);
        return;
    }
    p->is_open = true;
    download_pump(p);
}

static void download_on_notice(void *user, const struct guest_notice *n) {
    struct packing *p = user;
    struct err e;
    if (p->is_over || !p->is_open)
        return;
    p->outcome = n->tree_done;
    p->is_over = true;
    if (p->outcome.failure.code != ERR_NONE) {
        e = file_target_error("", p->target.sandbox_id, &p->outcome.failure);
        download_fail(p, &e);
    } else if (p->has_all) {
        download_pump(p);
    }
}

static void download_on_gone(void *user, const struct err *e, bool is_final) {
    (void)is_final;
    download_fail(user, e);
}

static const struct file_events events = {download_on_answer, download_on_gone, download_on_notice};

/* --- the call --- */

static bool download_on_quiet(struct heartbeat *h, Berm__V1__Heartbeat *beat) {
    struct packing *p = container_of(h, struct packing, heartbeat);
    Berm__V1__DownloadTreeResponse m = BERM__V1__DOWNLOAD_TREE_RESPONSE__INIT;
    m.part_case = BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_HEARTBEAT;
    m.heartbeat = beat;
    return p->is_full || download_send(p, &m) != CALL_GONE;
}

static int download_check(const Berm__V1__DownloadTreeRequest *request, struct err *e) {
    char field[32];
    if (request->n_excludes > EXCLUDES_MAX)
        return err_field(e, "excludes", "excludes: must have at most %d patterns", EXCLUDES_MAX);
    for (size_t i = 0; i < request->n_excludes; i++) {
        snprintf(field, sizeof field, "excludes[%zu]", i);
        if (request->excludes[i][0] == '\0')
            return err_field(e, field, "%s: must not be empty", field);
        if (file_check_most(field, strlen(request->excludes[i]), LIMIT_PATTERN_LENGTH,
                            limit_table[LIMIT_PATTERN_LENGTH].value, e) < 0)
            return -(int)e->code;
    }
    return tree_check_compression("compression", request->compression, e);
}

static void download_ask(struct packing *p, const Berm__V1__DownloadTreeRequest *request) {
    struct guest_file_request r = file_target_request(&p->target, GUEST_PACK);
    r.pack.n_excludes = request->n_excludes;
    r.pack.excludes = request->excludes;
    file_call_ask(p->file, &r);
}

static void download_on_message(struct call *c, const ProtobufCMessage *m) {
    const Berm__V1__DownloadTreeRequest *request = (const void *)m;
    struct err e;
    struct packing *p = context_serves(c) ? call_new_state(c, sizeof *p) : NULL;
    if (!p)
        return;
    p->call = c;
    heartbeat_init(&p->heartbeat, c, download_on_quiet);
    int r = file_target_read(&p->target, m, "", false, &e);
    if (r == 0)
        r = download_check(request, &e);
    if (r == 0 && request->compression == BERM__V1__TREE_COMPRESSION__TREE_COMPRESSION_GZIP &&
        gzip_stream_new(GZIP_DEFLATE, &p->gzip) < 0)
        r = answer_no_memory(&e);
    if (r == 0)
        r = file_target_open(&p->target, c, true, &events, p, &p->file, &e);
    if (r < 0) {
        gzip_stream_free(TAKE(p->gzip));
        call_finish(c, &e);
        return;
    }
    call_set_subject(c, "sandbox_id", p->target.sandbox_id);
    heartbeat_start(&p->heartbeat);
    download_ask(p, request);
}

static void download_on_writable(struct call *c) {
    struct packing *p = c->state;
    p->is_full = false;
    if (p->is_open)
        download_pump(p);
}

static void download_on_cancel(struct call *c) {
    if (c->state)
        download_release(c->state);
}

const struct handler api_file_download_tree = {.on_message = download_on_message,
                                               .on_writable = download_on_writable,
                                               .on_cancel = download_on_cancel};
