/* file_upload_tree — UploadTree: writes a tar stream into the pipe of a child of the guest, which
 * unpacks it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "api/subject.h"
#include "api/file/file_tree.h"
#include "api/file/file_upload.h"
#include "api/methods.h"
#include "core/files/file_pipe.h"
#include "wire/gzip.h"

#define STEP_BYTES 65536

struct planting {
    struct upload upload;
    struct file_pipe *pipe;   /* NULL: the child reads no more */
    struct gzip_stream *gzip; /* NULL: not compressed */
    uint8_t *plain;           /* inflated bytes that are not written yet */
    size_t n_plain;
    size_t at_plain;
    bool at_end;  /* the gzip stream is at the end of a member */
    bool is_over; /* the guest reported the outcome */
    struct guest_tree_done outcome;
};

static struct planting *upload_tree_of(struct upload *u) {
    return container_of(u, struct planting, upload);
}

static const Berm__V1__UploadTreeHeader *upload_tree_header(const struct upload *u) {
    return (const void *)u->header;
}

static int upload_tree_check(struct upload *u, struct err *e) {
    return tree_check_compression("header.compression", upload_tree_header(u)->compression, e);
}

static void upload_tree_on_ready(void *user) {
    upload_go_on(user);
}

static int upload_tree_opened(struct upload *u, const struct guest_answer *a, struct err *e) {
    struct planting *t = upload_tree_of(u);
    bool is_gzip =
        upload_tree_header(u)->compression == BERM__V1__TREE_COMPRESSION__TREE_COMPRESSION_GZIP;
    t->pipe = file_pipe_open(u->file, a, O_WRONLY, upload_tree_on_ready, u);
    if (!t->pipe)
        return answer_no_memory(e);
    if (is_gzip &&
        (gzip_stream_new(GZIP_INFLATE, &t->gzip) < 0 || !(t->plain = malloc(STEP_BYTES))))
        return answer_no_memory(e);
    return 0;
}

/* Drops all pending bytes, because the child reads no more. The guest reports why. */
static int upload_tree_drop(struct planting *t) {
    file_pipe_close(TAKE(t->pipe));
    t->upload.at_in = t->upload.n_in;
    t->at_plain = t->n_plain = 0;
    return 1;
}

/* Writes bytes into the pipe. Returns 1 when everything was written, 0 when the pipe is full. */
static int upload_tree_write_out(struct planting *t, const uint8_t *bytes, size_t n, size_t *at) {
    while (*at < n) {
        ssize_t w = file_pipe_write(t->pipe, bytes + *at, n - *at);
        if (w == -EAGAIN) {
            file_pipe_wait(t->pipe);
            return 0;
        }
        if (w < 0)
            return upload_tree_drop(t);
        *at += (size_t)w;
        t->upload.audit.bytes_moved += (uint64_t)w;
    }
    return 1;
}

static int upload_tree_inflate(struct planting *t, struct err *e) {
    struct upload *u = &t->upload;
    struct gzip_piece piece = {u->in + u->at_in, u->n_in - u->at_in, t->plain, STEP_BYTES};
    int r = gzip_stream_step(t->gzip, &piece, false);
    if (r == -ENOMEM)
        return answer_no_memory(e);
    if (r < 0)
        return err_set(e, ERR_TREE_INVALID, "the stream is not gzip or is damaged");
    t->at_end = r == 1;
    u->at_in = u->n_in - piece.n_in;
    t->n_plain = STEP_BYTES - piece.n_out;
    t->at_plain = 0;
    return 0;
}

static int upload_tree_move(struct upload *u, struct err *e) {
    struct planting *t = upload_tree_of(u);
    if (!t->pipe)
        return upload_tree_drop(t);
    if (!t->gzip)
        return upload_tree_write_out(t, u->in, u->n_in, &u->at_in);
    for (;;) {
        int r = upload_tree_write_out(t, t->plain, t->n_plain, &t->at_plain);
        bool was_full = t->n_plain == STEP_BYTES; /* zlib may have more output for the same input */
        if (r == 0 || !t->pipe || (u->at_in == u->n_in && !was_full))
            return r;
        if (upload_tree_inflate(t, e) < 0)
            return -(int)e->code;
    }
}

/* Ends the upload when the guest has reported the outcome and the client has sent everything. */
static void upload_tree_conclude(struct upload *u) {
    struct planting *t = upload_tree_of(u);
    Berm__V1__UploadTreeResponse *response = (void *)u->response;
    if (t->outcome.failure.code != ERR_NONE) {
        struct err e = file_target_error("header.", u->mu.subject_id, &t->outcome.failure);
        upload_fail(u, &e);
        return;
    }
    response->files = t->outcome.files;
    response->directories = t->outcome.directories;
    response->total_bytes = t->outcome.total_bytes;
    upload_done(u);
}

static void upload_tree_on_notice(struct upload *u, const struct guest_tree_done *done) {
    struct planting *t = upload_tree_of(u);
    if (t->is_over)
        return;
    t->outcome = *done;
    t->is_over = true;
    if (u->step == UPLOAD_FINISHING || t->outcome.failure.code != ERR_NONE)
        upload_tree_conclude(u);
}

static int upload_tree_finish(struct upload *u, struct err *e) {
    struct planting *t = upload_tree_of(u);
    if (t->gzip && t->pipe && !t->at_end)
        return err_set(e, ERR_TREE_INVALID, "the gzip stream is incomplete");
    t->pipe = file_pipe_end(t->pipe);
    if (t->is_over)
        upload_tree_conclude(u);
    return 0;
}

static void upload_tree_on_answer(struct upload *u, const struct guest_answer *a) {
    struct err e;
    if (upload_tree_of(u)->pipe && file_pipe_answer(upload_tree_of(u)->pipe, a, &e) < 0)
        upload_fail(u, &e);
}

static void upload_tree_end(struct upload *u) {
    struct planting *t = upload_tree_of(u);
    file_pipe_close(TAKE(t->pipe));
    gzip_stream_free(t->gzip);
    free(t->plain);
}

static const struct upload_kind kind = {
    .method = GUEST_UNPACK,
    .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_UPLOAD_TREE,
    .size = sizeof(struct planting),
    .check = upload_tree_check,
    .opened = upload_tree_opened,
    .move = upload_tree_move,
    .on_answer = upload_tree_on_answer,
    .on_notice = upload_tree_on_notice,
    .finish = upload_tree_finish,
    .end = upload_tree_end,
    .hears_failures = true,
    .leaves_parts = true,
};

static void upload_tree_on_message(struct call *c, const ProtobufCMessage *m) {
    upload_message(c, m, &kind);
}

const struct handler api_file_upload_tree = {.on_message = upload_tree_on_message,
                                             .on_half_close = upload_half_close,
                                             .on_cancel = mutation_cancel};
