/* file_write — WriteFile: writes into an unnamed file that the guest made; `commit` gives it its
 * name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "api/file/file_upload.h"
#include "api/methods.h"
#include "core/files/file_writer.h"

struct writing {
    struct upload upload;
    struct file_writer *writer; /* NULL: the guest writes the file */
};

static struct writing *file_write_of(struct upload *u) {
    return container_of(u, struct writing, upload);
}

static const Berm__V1__WriteFileHeader *file_write_header(const struct upload *u) {
    return (const void *)u->header;
}

static int file_write_check(struct upload *u, struct err *e) {
    return file_check_mode("header.mode.bits", file_write_header(u)->mode, e);
}

static void file_write_put(struct upload *u, struct guest_file_request *r) {
    const Berm__V1__WriteFileHeader *header = file_write_header(u);
    r->make.has_mode = header->mode != NULL;
    r->make.mode = header->mode ? header->mode->bits : 0;
    r->make.make_parents = header->make_parents;
    r->make.must_not_exist = header->must_not_exist;
}

static int file_write_incomplete(const struct upload *u, uint64_t came, struct err *e) {
    err_set(e, ERR_UPLOAD_INCOMPLETE, "header.size: announced %llu bytes, got %llu",
            (unsigned long long)file_write_header(u)->size->size_bytes, (unsigned long long)came);
    return -(int)e->code;
}

static int file_write_failed(int sys, struct err *e) {
    bool is_full = sys == ENOSPC || sys == EDQUOT || sys == EFBIG;
    return err_sys(e, is_full ? ERR_DISK_FULL : ERR_INTERNAL, sys, "write the file");
}

static int file_write_here(struct upload *u, struct err *e) {
    while (u->at_in < u->n_in) {
        ssize_t n =
            file_writer_write(file_write_of(u)->writer, u->in + u->at_in, u->n_in - u->at_in);
        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return file_write_failed((int)-n, e);
        u->at_in += (size_t)n;
        u->audit.bytes_moved += (uint64_t)n;
    }
    /* Ask for the next message only when the writer accepts it, because otherwise the message would
     * be copied once more. */
    return file_writer_is_writable(file_write_of(u)->writer);
}

static int file_write_move(struct upload *u, struct err *e) {
    size_t left = u->n_in - u->at_in;
    const Berm__V1__ExpectedSize *size = file_write_header(u)->size;
    if (size && u->audit.bytes_moved + left > size->size_bytes)
        return file_write_incomplete(u, u->audit.bytes_moved + left, e);
    if (file_write_of(u)->writer)
        return file_write_here(u, e);
    if (left == 0)
        return 1;
    struct str chunk = {(const char *)u->in + u->at_in, MIN(left, (size_t)GUEST_CHUNK_BYTES)};
    file_call_ask(u->file,
                  &(struct guest_file_request){.method = GUEST_WRITE_CHUNK,
                                               .handle = file_call_handle(u->file),
                                               .write_chunk = {u->audit.bytes_moved, chunk}});
    return 0;
}

/* Sends `commit` once the last byte is written. */
static int file_write_commit(struct upload *u, struct err *e) {
    int r = file_write_of(u)->writer ? file_writer_flush(file_write_of(u)->writer) : 0;
    if (r == -EAGAIN)
        return 0;
    if (r < 0)
        return file_write_failed(-r, e);
    file_call_ask(u->file, &(struct guest_file_request){.method = GUEST_COMMIT,
                                                        .handle = file_call_handle(u->file),
                                                        .commit = {u->audit.bytes_moved}});
    return 0;
}

static int file_write_finish(struct upload *u, struct err *e) {
    const Berm__V1__ExpectedSize *size = file_write_header(u)->size;
    if (size && u->audit.bytes_moved != size->size_bytes)
        return file_write_incomplete(u, u->audit.bytes_moved, e);
    return file_write_commit(u, e);
}

static void file_write_on_ready(void *user) {
    struct upload *u = user;
    struct err e;
    if (u->step == UPLOAD_OPEN)
        upload_go_on(u);
    else if (file_write_commit(u, &e) < 0)
        upload_fail(u, &e);
}

static int file_write_opened(struct upload *u, const struct guest_answer *a, struct err *e) {
    struct file_turns *turns = file_call_env(u->file)->file_turns;
    int fd = file_take(a, O_WRONLY);
    if (fd >= 0 &&
        !(file_write_of(u)->writer = file_writer_open(turns, fd, file_write_on_ready, u)))
        return answer_no_memory(e);
    return 0;
}

static void file_write_on_answer(struct upload *u, const struct guest_answer *a) {
    Berm__V1__WriteFileResponse *response = (void *)u->response;
    struct err e;
    if (u->step == UPLOAD_OPEN) {
        u->at_in += a->file->write_chunk.n_taken;
        u->audit.bytes_moved += a->file->write_chunk.n_taken;
        upload_go_on(u);
    } else if (answer_info(&a->file->info, &u->arena, &response->info, &e) < 0) {
        upload_fail(u, &e);
    } else {
        response->created = a->file->created;
        upload_done(u);
    }
}

static void file_write_end(struct upload *u) {
    file_writer_close(file_write_of(u)->writer);
}

static const struct upload_kind kind = {
    .method = GUEST_WRITE,
    .operation = BERM__V1__FILE_OPERATION__FILE_OPERATION_WRITE,
    .size = sizeof(struct writing),
    .check = file_write_check,
    .put = file_write_put,
    .opened = file_write_opened,
    .move = file_write_move,
    .on_answer = file_write_on_answer,
    .finish = file_write_finish,
    .end = file_write_end,
};

static void file_write_on_message(struct call *c, const ProtobufCMessage *m) {
    upload_message(c, m, &kind);
}

const struct handler api_file_write = {.on_message = file_write_on_message,
                                       .on_half_close = upload_half_close,
                                       .on_cancel = mutation_cancel};
