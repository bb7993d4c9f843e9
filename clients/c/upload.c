/* Bytes into a sandbox: WriteFile and UploadTree, which begin anew after a break, under one request id. */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"

#define CHUNK_BYTES ((size_t)256 * 1024)

struct upload {
    struct stream stream;
    ProtobufCMessage *next;    /* a request with bytes */
    ProtobufCBinaryData *data; /* … these */
    berm_source source;
    void *user;
    uint64_t offset;
    int failure; /* errno of the source; 0 = none */
    bool is_repeat;
    uint8_t *chunk;
    void *response;
};

static void on_begin(struct stream *s) {
    struct upload *u = container_of(s, struct upload, stream);
    u->is_repeat = u->is_repeat || u->offset > 0;
    u->offset = 0;
    berm_free(TAKE(u->response));
}

static enum send_next on_send(struct stream *s, const ProtobufCMessage **ret_message) {
    struct upload *u = container_of(s, struct upload, stream);
    ssize_t n = u->source(u->user, u->offset, u->chunk, CHUNK_BYTES);
    if (n < 0) {
        u->failure = (int)-n;
        return SEND_FAIL;
    }
    if (n == 0)
        return SEND_END;
    u->offset += (uint64_t)n;
    *u->data = (ProtobufCBinaryData){.data = u->chunk, .len = (size_t)n};
    *ret_message = u->next;
    return SEND_MORE;
}

static enum stream_next on_message(struct stream *s, const ProtobufCMessage *message) {
    struct upload *u = container_of(s, struct upload, stream);
    berm_free(u->response);
    u->response = client_copy(message);
    return STREAM_MORE; /* the status is still to come */
}

static int upload_run(struct berm_client *c, struct upload *u, void *ret_response,
                      struct berm_error *e) {
    u->stream.on_begin = on_begin;
    u->stream.on_send = on_send;
    u->stream.on_message = on_message;
    u->stream.resumes = u->stream.is_quiet = u->stream.has_request_id = true;
    u->chunk = malloc(CHUNK_BYTES);
    int r = u->chunk ? client_stream(c, &u->stream, e)
                     : error_set(e, BERM_LIMIT_REACHED, "out of memory");
    free(u->chunk);
    if (r == 0 && u->failure == ESPIPE && u->is_repeat)
        r = error_set(e, BERM_DISCONNECTED,
                      "the connection was lost, and what was sent cannot be read again");
    else if (r == 0 && u->failure != 0)
        r = error_set(e, BERM_CANCELLED, "what is to be sent cannot be read: %s",
                      strerror(u->failure));
    else if (r == 0 && !u->response)
        r = error_set(e, BERM_MALFORMED, "the daemon's answer is missing");
    if (r == 0 && ret_response)
        *(void **)ret_response = TAKE(u->response);
    berm_free(u->response);
    return r;
}

int berm_file_write(struct berm_client *c, const Berm__V1__WriteFileHeader *header,
                    berm_source source, void *user, Berm__V1__WriteFileResponse **ret_response,
                    struct berm_error *e) {
    char id[33];
    Berm__V1__WriteFileHeader copy = *header;
    Berm__V1__WriteFileRequest first = BERM__V1__WRITE_FILE_REQUEST__INIT;
    Berm__V1__WriteFileRequest next = BERM__V1__WRITE_FILE_REQUEST__INIT;
    struct upload u = {
        .stream = {.method = method_of(METHOD_ID_WriteFile), .request = &first.base},
        .next = &next.base,
        .data = &next.data,
        .source = source,
        .user = user,
    };
    client_random_id(id, 32);
    if (copy.request_id[0] == '\0')
        copy.request_id = id;
    first.part_case = BERM__V1__WRITE_FILE_REQUEST__PART_HEADER;
    first.header = &copy;
    next.part_case = BERM__V1__WRITE_FILE_REQUEST__PART_DATA;
    return upload_run(c, &u, ret_response, e);
}

int berm_tree_upload(struct berm_client *c, const Berm__V1__UploadTreeHeader *header,
                     berm_source source, void *user, Berm__V1__UploadTreeResponse **ret_response,
                     struct berm_error *e) {
    char id[33];
    Berm__V1__UploadTreeHeader copy = *header;
    Berm__V1__UploadTreeRequest first = BERM__V1__UPLOAD_TREE_REQUEST__INIT;
    Berm__V1__UploadTreeRequest next = BERM__V1__UPLOAD_TREE_REQUEST__INIT;
    struct upload u = {
        .stream = {.method = method_of(METHOD_ID_UploadTree), .request = &first.base},
        .next = &next.base,
        .data = &next.data,
        .source = source,
        .user = user,
    };
    client_random_id(id, 32);
    if (copy.request_id[0] == '\0')
        copy.request_id = id;
    first.part_case = BERM__V1__UPLOAD_TREE_REQUEST__PART_HEADER;
    first.header = &copy;
    next.part_case = BERM__V1__UPLOAD_TREE_REQUEST__PART_DATA;
    return upload_run(c, &u, ret_response, e);
}

ssize_t berm_fd_source(void *user, uint64_t offset, void *into, size_t n) {
    struct berm_fd *f = user;
    ssize_t r;
    do {
        r = pread(f->fd, into, n, (off_t)offset);
        if (r < 0 && errno == ESPIPE && offset == f->next) /* a pipe gives each byte once */
            r = read(f->fd, into, n);
    } while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    f->next = offset + (uint64_t)r;
    return r;
}
