#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "berm/v1/berm.pb-c.h"
#include "stopwatch/stopwatch.h"

#define CHUNK_BYTES ((size_t)256 << 10) /* as libberm sends */
#define SERVICE "/berm.v1.FileService/"

/* The file of ours that the one call reads or writes. */
static struct {
    int fd;
    uint64_t n_bytes;
    uint64_t n_files; /* of a tree, as its end tells */
    int has_end;
} local;

static void open_local(const char *path, int flags) {
    local.n_bytes = local.n_files = 0;
    local.has_end = 0;
    local.fd = open(path, flags | O_CLOEXEC, 0644);
    if (local.fd < 0)
        die(path);
}

static ProtobufCBinaryData read_local(void) {
    static uint8_t chunk[CHUNK_BYTES];
    ssize_t n = read(local.fd, chunk, sizeof chunk);
    if (n < 0)
        die("read");
    local.n_bytes += (uint64_t)n;
    return (ProtobufCBinaryData){(size_t)n, chunk};
}

static void write_local(ProtobufCBinaryData data) {
    for (size_t at = 0; at < data.len;) {
        ssize_t n = write(local.fd, data.data + at, data.len - at);
        if (n < 0)
            die("write");
        at += (size_t)n;
    }
    local.n_bytes += data.len;
}

static void close_local(const char *path) {
    if (close(local.fd) < 0)
        die(path);
}

/* --- up --- */

static const ProtobufCMessage *next_of_file(void) {
    static Berm__V1__WriteFileRequest next;
    berm__v1__write_file_request__init(&next);
    next.part_case = BERM__V1__WRITE_FILE_REQUEST__PART_DATA;
    next.data = read_local();
    return next.data.len > 0 ? &next.base : NULL;
}

static void file_is_written(const uint8_t *bytes, size_t n) {
    Berm__V1__WriteFileResponse *m = berm__v1__write_file_response__unpack(NULL, n, bytes);
    if (!m || m->info->size_bytes != local.n_bytes)
        die_of("WriteFile", "not all bytes arrived");
    berm__v1__write_file_response__free_unpacked(m, NULL);
    local.has_end = 1;
}

void file_put(const char *id, const char *path, const char *from) {
    static const struct rpc_stream stream = {next_of_file, file_is_written};
    Berm__V1__WriteFileHeader header = BERM__V1__WRITE_FILE_HEADER__INIT;
    Berm__V1__WriteFileRequest first = BERM__V1__WRITE_FILE_REQUEST__INIT;
    header.sandbox_id = (char *)id;
    header.path = (char *)path;
    first.part_case = BERM__V1__WRITE_FILE_REQUEST__PART_HEADER;
    first.header = &header;
    open_local(from, O_RDONLY);
    rpc_stream(SERVICE "WriteFile", &first.base, &stream);
    close_local(from);
    if (!local.has_end)
        die_of("WriteFile", "no answer");
}

static const ProtobufCMessage *next_of_tree(void) {
    static Berm__V1__UploadTreeRequest next;
    berm__v1__upload_tree_request__init(&next);
    next.part_case = BERM__V1__UPLOAD_TREE_REQUEST__PART_DATA;
    next.data = read_local();
    return next.data.len > 0 ? &next.base : NULL;
}

static void tree_is_written(const uint8_t *bytes, size_t n) {
    Berm__V1__UploadTreeResponse *m = berm__v1__upload_tree_response__unpack(NULL, n, bytes);
    if (!m)
        die_of("UploadTree", "the answer is not valid");
    local.n_files = m->files;
    berm__v1__upload_tree_response__free_unpacked(m, NULL);
}

uint64_t tree_put(const char *id, const char *path, const char *tar) {
    static const struct rpc_stream stream = {next_of_tree, tree_is_written};
    Berm__V1__UploadTreeHeader header = BERM__V1__UPLOAD_TREE_HEADER__INIT;
    Berm__V1__UploadTreeRequest first = BERM__V1__UPLOAD_TREE_REQUEST__INIT;
    header.sandbox_id = (char *)id;
    header.path = (char *)path;
    first.part_case = BERM__V1__UPLOAD_TREE_REQUEST__PART_HEADER;
    first.header = &header;
    open_local(tar, O_RDONLY);
    rpc_stream(SERVICE "UploadTree", &first.base, &stream);
    close_local(tar);
    return local.n_files;
}

/* --- down --- */

static void take_of_file(const uint8_t *bytes, size_t n) {
    Berm__V1__ReadFileResponse *m = berm__v1__read_file_response__unpack(NULL, n, bytes);
    if (!m)
        die_of("ReadFile", "a message is not valid");
    if (m->part_case == BERM__V1__READ_FILE_RESPONSE__PART_CHUNK)
        write_local(m->chunk->data);
    else if (m->part_case == BERM__V1__READ_FILE_RESPONSE__PART_END)
        local.has_end = m->end->total_bytes == local.n_bytes;
    berm__v1__read_file_response__free_unpacked(m, NULL);
}

void file_get(const char *id, const char *path, const char *to) {
    static const struct rpc_stream stream = {NULL, take_of_file};
    Berm__V1__ReadFileRequest request = BERM__V1__READ_FILE_REQUEST__INIT;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    open_local(to, O_WRONLY | O_CREAT | O_TRUNC);
    rpc_stream(SERVICE "ReadFile", &request.base, &stream);
    close_local(to);
    if (!local.has_end)
        die_of("ReadFile", "not all bytes arrived");
}

static void take_of_tree(const uint8_t *bytes, size_t n) {
    Berm__V1__DownloadTreeResponse *m = berm__v1__download_tree_response__unpack(NULL, n, bytes);
    if (!m)
        die_of("DownloadTree", "a message is not valid");
    if (m->part_case == BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_DATA)
        write_local(m->data);
    else if (m->part_case == BERM__V1__DOWNLOAD_TREE_RESPONSE__PART_END)
        local.n_files = m->end->files;
    berm__v1__download_tree_response__free_unpacked(m, NULL);
}

uint64_t tree_get(const char *id, const char *path, const char *tar) {
    static const struct rpc_stream stream = {NULL, take_of_tree};
    Berm__V1__DownloadTreeRequest request = BERM__V1__DOWNLOAD_TREE_REQUEST__INIT;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    open_local(tar, O_WRONLY | O_CREAT | O_TRUNC);
    rpc_stream(SERVICE "DownloadTree", &request.base, &stream);
    close_local(tar);
    return local.n_files;
}

/* --- questions --- */

void file_stat(const char *id, const char *path) {
    Berm__V1__StatFileRequest request = BERM__V1__STAT_FILE_REQUEST__INIT;
    const uint8_t *answer;
    size_t n;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    rpc_unary(SERVICE "StatFile", &request.base, &answer, &n);
}

size_t file_list(const char *id, const char *path) {
    Berm__V1__ListFilesRequest request = BERM__V1__LIST_FILES_REQUEST__INIT;
    const uint8_t *answer;
    size_t n;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    rpc_unary(SERVICE "ListFiles", &request.base, &answer, &n);
    Berm__V1__ListFilesResponse *m = berm__v1__list_files_response__unpack(NULL, n, answer);
    if (!m)
        die_of("ListFiles", "the answer is not valid");
    size_t n_entries = m->n_entries;
    berm__v1__list_files_response__free_unpacked(m, NULL);
    return n_entries;
}

void file_remove(const char *id, const char *path) {
    Berm__V1__RemoveRequest request = BERM__V1__REMOVE_REQUEST__INIT;
    const uint8_t *answer;
    size_t n;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    request.recursive = request.missing_ok = 1;
    rpc_unary(SERVICE "Remove", &request.base, &answer, &n);
}
