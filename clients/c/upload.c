/* Uploads: WriteFile and UploadTree. Both start again after a break, with the same request id. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"
#include "wire/grpc.h"

#define CHUNK_BYTES ((size_t)256 * 1024)
#define HEAD_ROOM ((size_t)16) /* space for gRPC's prefix, the field's tag and its length */

struct upload {
    struct stream stream;
    uint32_t field; /* field of the request that holds the bytes */
    berm_source source;
    void *user;
    uint64_t offset;
    int failure; /* errno of the source; 0: none */
    bool is_repeat;
    uint8_t *chunk;     /* buffer being sent: HEAD_ROOM bytes, then the data */
    uint8_t *ahead;     /* second buffer, for the data of the next message */
    bool has_ahead;     /* the source was read into `ahead` */
    ssize_t ahead_read; /* result of the source for `ahead` */
    int pipe[2];        /* pipe for pages of a file; -1: read from the source into memory */
    void *response;
};

/* --- file pages through a pipe --- */

static void close_pipe(struct upload *u) {
    for (size_t i = 0; i < COUNT_OF(u->pipe); i++)
        if (u->pipe[i] >= 0)
            close(TAKE_FD(u->pipe[i]));
}

/* Opens the pipe if the source is a large regular file. Without a pipe, the upload reads the bytes
 * into memory. */
static void open_pipe(struct upload *u) {
    struct stat st;
    if (u->source == berm_fd_source && fstat(((struct berm_fd *)u->user)->fd, &st) == 0 &&
        S_ISREG(st.st_mode) && st.st_size >= (off_t)CHUNK_BYTES &&
        pipe2(u->pipe, O_CLOEXEC | O_NONBLOCK) == 0 &&
        fcntl(u->pipe[1], F_SETPIPE_SZ, (int)CHUNK_BYTES) < 0)
        close_pipe(u);
}

/* Fills the empty pipe and returns the byte count. A short count is not an error. At 0, the
 * caller must read from the source, which reports the end of the data or an error. */
static size_t fill_pipe(struct upload *u) {
    struct berm_fd *f = u->user;
    off_t at = (off_t)u->offset;
    size_t n = 0;
    for (ssize_t r = 1; n < CHUNK_BYTES && r > 0; n = (size_t)at - (size_t)u->offset)
        r = splice(f->fd, &at, u->pipe[1], NULL, CHUNK_BYTES - n, SPLICE_F_NONBLOCK);
    u->offset = f->next = (uint64_t)at;
    return n;
}

/* --- messages --- */

static void on_begin(struct stream *s) {
    struct upload *u = container_of(s, struct upload, stream);
    u->is_repeat = u->is_repeat || u->offset > 0;
    u->offset = 0;
    u->has_ahead = false;
    close_pipe(u); /* discards unsent bytes */
    open_pipe(u);
    berm_free(TAKE(u->response));
}

/* Writes prefix, tag and length right before the bytes. Returns the start of the message. */
static uint8_t *put_head(const struct upload *u, size_t n) {
    uint8_t head[HEAD_ROOM];
    size_t at = GRPC_PREFIX_BYTES;
    head[at++] = (uint8_t)(u->field << 3 | 2);
    for (size_t left = n; at == GRPC_PREFIX_BYTES + 1 || left > 0; left >>= 7)
        head[at++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    grpc_put_prefix(head, false, at - GRPC_PREFIX_BYTES + n);
    return memcpy(u->chunk + HEAD_ROOM - at, head, at);
}

/* Reads the next bytes directly into the buffer from which they are sent, to save a copy. */
static ssize_t read_ahead(struct upload *u) {
    u->has_ahead = true;
    u->ahead_read = u->source(u->user, u->offset, u->ahead + HEAD_ROOM, CHUNK_BYTES);
    if (u->ahead_read > 0)
        u->offset += (uint64_t)u->ahead_read;
    return u->ahead_read;
}

static enum send_next on_send(struct stream *s, const ProtobufCMessage **ret_message) {
    struct upload *u = container_of(s, struct upload, stream);
    (void)ret_message;
    size_t n_piped = u->pipe[0] >= 0 && !u->has_ahead ? fill_pipe(u) : 0;
    if (n_piped > 0) {
        const uint8_t *head = put_head(u, n_piped);
        s->packed = (struct loan){head, (size_t)(u->chunk + HEAD_ROOM - head), u->pipe[0], n_piped};
        return SEND_PACKED;
    }
    ssize_t n = u->has_ahead ? u->ahead_read : read_ahead(u);
    if (n < 0) {
        u->failure = (int)-n;
        return SEND_FAIL;
    }
    if (n == 0)
        return SEND_END;
    u->has_ahead = false;
    uint8_t *read = u->ahead;
    u->ahead = u->chunk;
    u->chunk = read;
    const uint8_t *from = put_head(u, (size_t)n);
    s->packed = (struct loan){.bytes = from, .n = (size_t)(u->chunk + HEAD_ROOM + n - from)};
    return SEND_PACKED;
}

/* Reads ahead while the daemon processes the last message. Does not read after a short read,
 * because the source might block before the last message is sent completely. */
static void on_sent(struct stream *s) {
    struct upload *u = container_of(s, struct upload, stream);
    if (u->pipe[0] < 0 && u->ahead_read == (ssize_t)CHUNK_BYTES)
        read_ahead(u);
}

static enum stream_next on_message(struct stream *s, const ProtobufCMessage *message) {
    struct upload *u = container_of(s, struct upload, stream);
    berm_free(u->response);
    u->response = client_copy(message);
    return STREAM_MORE; /* the gRPC status follows the response */
}

static int upload_run(struct berm_client *c, struct upload *u, void *ret_response,
                      struct berm_error *e) {
    u->stream.on_begin = on_begin;
    u->stream.on_send = on_send;
    u->stream.on_sent = on_sent;
    u->stream.on_message = on_message;
    u->stream.resumes = u->stream.is_quiet = u->stream.has_request_id = true;
    u->pipe[0] = u->pipe[1] = -1;
    u->chunk = malloc(HEAD_ROOM + CHUNK_BYTES);
    u->ahead = malloc(HEAD_ROOM + CHUNK_BYTES);
    int r = u->chunk && u->ahead ? client_stream(c, &u->stream, e)
                                 : error_set(e, BERM_OUT_OF_MEMORY, "out of memory");
    close_pipe(u);
    free(u->chunk);
    free(u->ahead);
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
    struct upload u = {
        .stream = {.method = method_of(METHOD_ID_WriteFile), .request = &first.base},
        .field = BERM__V1__WRITE_FILE_REQUEST__PART_DATA,
        .source = source,
        .user = user,
    };
    client_random_id(id, 32);
    if (copy.request_id[0] == '\0')
        copy.request_id = id;
    first.part_case = BERM__V1__WRITE_FILE_REQUEST__PART_HEADER;
    first.header = &copy;
    return upload_run(c, &u, ret_response, e);
}

int berm_tree_upload(struct berm_client *c, const Berm__V1__UploadTreeHeader *header,
                     berm_source source, void *user, Berm__V1__UploadTreeResponse **ret_response,
                     struct berm_error *e) {
    char id[33];
    Berm__V1__UploadTreeHeader copy = *header;
    Berm__V1__UploadTreeRequest first = BERM__V1__UPLOAD_TREE_REQUEST__INIT;
    struct upload u = {
        .stream = {.method = method_of(METHOD_ID_UploadTree), .request = &first.base},
        .field = BERM__V1__UPLOAD_TREE_REQUEST__PART_DATA,
        .source = source,
        .user = user,
    };
    client_random_id(id, 32);
    if (copy.request_id[0] == '\0')
        copy.request_id = id;
    first.part_case = BERM__V1__UPLOAD_TREE_REQUEST__PART_HEADER;
    first.header = &copy;
    return upload_run(c, &u, ret_response, e);
}

ssize_t berm_fd_source(void *user, uint64_t offset, void *into, size_t n) {
    struct berm_fd *f = user;
    ssize_t r;
    do {
        r = pread(f->fd, into, n, (off_t)offset);
        if (r < 0 && errno == ESPIPE && offset == f->next) /* a pipe provides each byte once */
            r = read(f->fd, into, n);
    } while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    f->next = offset + (uint64_t)r;
    return r;
}
