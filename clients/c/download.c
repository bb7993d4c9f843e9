/* Downloads: ReadFile, which resumes at its position, and DownloadTree, which starts again. */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "clients/c/client.h"
#include "clients/c/error.h"
#include "clients/c/methods.h"
#include "wire/pb.h"

enum { CHUNK_OFFSET = 1, CHUNK_DATA = 2 }; /* fields of FileChunk */

struct download {
    struct stream stream;
    berm_sink sink;
    void *user;
    int result;
    uint64_t next; /* the first byte that the user does not have */
    void *end;     /* copy of the last message; NULL before it arrives */
    bool broken;   /* the daemon skipped bytes */
};

static enum stream_next download_give(struct download *d, const ProtobufCBinaryData *data) {
    uint64_t at = d->next;
    d->stream.given++;
    d->next += data->len;
    d->result = d->sink(d->user, at, data->data, data->len);
    return d->result == 0 ? STREAM_MORE : STREAM_STOP;
}

static int download_run(struct berm_client *c, struct download *d, void *ret_end,
                        struct berm_error *e) {
    int r = client_stream(c, &d->stream, e);
    if (r == 0 && d->broken)
        r = error_set(e, BERM_MALFORMED, "the daemon left bytes out without a word");
    else if (r == 0 && d->result == 0 && !d->end)
        r = error_set(e, BERM_MALFORMED, "the daemon's last message is missing");
    if (r == 0 && d->result == 0 && ret_end)
        *(void **)ret_end = TAKE(d->end);
    berm_free(d->end);
    return r < 0 ? r : d->result;
}

/* Finds the data bytes inside a packed message, so that they need no copy: nearly all messages
 * contain only data. Returns false if the message must be unpacked. */
static bool ends_with(const uint8_t *bytes, size_t n, uint32_t field, struct pb_field *ret_field) {
    const uint8_t *at = bytes, *end = bytes + n;
    do
        if (!pb_next_field(&at, end, ret_field))
            return false;
    while (!ret_field->is_bytes);
    return at == end && ret_field->id == field;
}

/* --- a file --- */

struct read {
    struct download down;
    Berm__V1__ReadFileRequest request;
    uint64_t left; /* bytes still to read; unused for a request by lines */
    bool has_info;
    uint64_t size_bytes; /* size of the file at the first attempt */
    int64_t modified_unix_ns;
    bool changed; /* the file was replaced */
};

static void on_read_begin(struct stream *s) {
    struct read *r = container_of(s, struct read, down.stream);
    if (!r->has_info || r->request.lines)
        return;
    r->request.offset = r->down.next;
    r->request.max_bytes = MAX(r->left, (uint64_t)1); /* 0 would request the whole file */
}

static enum stream_next on_info(struct read *r, const Berm__V1__FileInfo *info) {
    if (r->has_info) {
        r->changed =
            info->size_bytes != r->size_bytes || info->modified_unix_ns != r->modified_unix_ns;
        return r->changed ? STREAM_STOP : STREAM_MORE;
    }
    r->has_info = true;
    r->size_bytes = info->size_bytes;
    r->modified_unix_ns = info->modified_unix_ns;
    r->left = r->request.max_bytes;
    if (r->left == 0)
        r->left = info->size_bytes - MIN(info->size_bytes, r->request.offset);
    return STREAM_MORE;
}

static enum stream_next on_chunk(struct read *r, const Berm__V1__FileChunk *chunk) {
    ProtobufCBinaryData data = chunk->data;
    if (r->request.lines) { /* only the daemon knows the offset of a line, so do not resume */
        r->down.stream.resumes = false;
        r->down.next = chunk->offset;
        return download_give(&r->down, &data);
    }
    if (chunk->offset != r->down.next) {
        r->down.broken = true;
        return STREAM_STOP;
    }
    data.len = (size_t)MIN((uint64_t)data.len, r->left);
    r->left -= data.len;
    return data.len > 0 ? download_give(&r->down, &data) : STREAM_MORE;
}

static bool find_chunk(const uint8_t *at, const uint8_t *end, Berm__V1__FileChunk *ret_chunk) {
    struct pb_field f;
    while (at < end) {
        if (!pb_next_field(&at, end, &f))
            return false;
        if (f.id == CHUNK_OFFSET && !f.is_bytes)
            ret_chunk->offset = f.number;
        else if (f.id == CHUNK_DATA && f.is_bytes)
            ret_chunk->data = (ProtobufCBinaryData){f.n, (uint8_t *)f.bytes};
        else
            return false;
    }
    return true;
}

static bool on_read_packed(struct stream *s, const uint8_t *bytes, size_t n,
                           enum stream_next *ret_next) {
    Berm__V1__FileChunk chunk = BERM__V1__FILE_CHUNK__INIT;
    struct pb_field f;
    if (!ends_with(bytes, n, BERM__V1__READ_FILE_RESPONSE__PART_CHUNK, &f) ||
        !find_chunk(f.bytes, f.bytes + f.n, &chunk))
        return false;
    *ret_next = on_chunk(container_of(s, struct read, down.stream), &chunk);
    return true;
}

static enum stream_next on_read_message(struct stream *s, const ProtobufCMessage *message) {
    struct read *r = container_of(s, struct read, down.stream);
    const Berm__V1__ReadFileResponse *m = (const Berm__V1__ReadFileResponse *)message;
    switch ((int)m->part_case) {
    case BERM__V1__READ_FILE_RESPONSE__PART_INFO:
        return on_info(r, m->info);
    case BERM__V1__READ_FILE_RESPONSE__PART_CHUNK:
        return on_chunk(r, m->chunk);
    case BERM__V1__READ_FILE_RESPONSE__PART_END:
        r->down.end = client_copy(&m->end->base);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        return STREAM_MORE;
    }
}

int berm_file_read(struct berm_client *c, const Berm__V1__ReadFileRequest *request, berm_sink sink,
                   void *user, Berm__V1__ReadFileEnd **ret_end, struct berm_error *e) {
    struct read r = {
        .down = {.stream = {.method = method_of(METHOD_ID_ReadFile),
                            .on_begin = on_read_begin,
                            .on_message = on_read_message,
                            .on_packed = on_read_packed,
                            .resumes = true},
                 .sink = sink,
                 .user = user,
                 .next = request->offset},
        .request = *request,
    };
    Berm__V1__ReadFileEnd *end = NULL;
    r.down.stream.request = &r.request.base;
    int result = download_run(c, &r.down, &end, e);
    if (r.changed) /* on_info stopped the stream because the file changed */
        return error_set(e, BERM_FILE_CHANGED, "read the file: it changed meanwhile");
    if (end && !request->lines)
        end->total_bytes = r.down.next - request->offset; /* bytes of all attempts */
    if (ret_end && result == 0)
        *ret_end = TAKE(end);
    berm_free(end);
    return result;
}

/* --- a tree --- */

static void on_tree_begin(struct stream *s) {
    struct download *d = container_of(s, struct download, stream);
    d->next = 0;
}

static enum stream_next on_tree_message(struct stream *s, const ProtobufCMessage *message) {
    struct download *d = container_of(s, struct download, stream);
    const Berm__V1__DownloadTreeResponse *m = (const Berm__V1__DownloadTreeResponse *)message;
    switch ((int)m->part_case) {
    case BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_DATA:
        return download_give(d, &m->data);
    case BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_END:
        d->end = client_copy(&m->end->base);
        return STREAM_STOP;
    default: /* a heartbeat, or a message of a newer daemon (SKEW-5) */
        return STREAM_MORE;
    }
}

static bool on_tree_packed(struct stream *s, const uint8_t *bytes, size_t n,
                           enum stream_next *ret_next) {
    struct pb_field f;
    if (!ends_with(bytes, n, BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_DATA, &f))
        return false;
    *ret_next = download_give(container_of(s, struct download, stream),
                              &(ProtobufCBinaryData){f.n, (uint8_t *)f.bytes});
    return true;
}

int berm_tree_download(struct berm_client *c, const Berm__V1__DownloadTreeRequest *request,
                       berm_sink sink, void *user, Berm__V1__DownloadTreeEnd **ret_end,
                       struct berm_error *e) {
    struct download d = {
        .stream = {.method = method_of(METHOD_ID_DownloadTree),
                   .request = &request->base,
                   .on_begin = on_tree_begin,
                   .on_message = on_tree_message,
                   .on_packed = on_tree_packed,
                   .resumes = true},
        .sink = sink,
        .user = user,
    };
    return download_run(c, &d, ret_end, e);
}

int berm_fd_sink(void *user, uint64_t offset, const void *bytes, size_t n) {
    struct berm_fd *f = user;
    const uint8_t *p = bytes;
    if (f->next != 0 && f->next != offset) { /* the download restarted; f->fd cannot rewind */
        errno = ESPIPE;
        return 1;
    }
    f->next = offset + n;
    while (n > 0) {
        ssize_t r = write(f->fd, p, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return 1;
        p += r;
        n -= (size_t)r;
    }
    return 0;
}
