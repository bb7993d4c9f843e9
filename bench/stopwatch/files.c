#include <berm.h>
#include <fcntl.h>
#include <unistd.h>

#include "stopwatch/stopwatch.h"

static struct berm_client *client;

void files_open(const char *socket_path) {
    berm_client_free(client);
    client = berm_client_new(&(struct berm_options){.socket = socket_path});
    if (!client)
        die("berm_client_new");
}

static void check(int r, const struct berm_error *e, const char *path) {
    if (r < 0)
        die_of(path, e->message);
    if (r > 0)
        die(path);
}

/* Opens a local file for one call. */
static struct berm_fd open_local(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        die(path);
    return (struct berm_fd){.fd = fd};
}

static void close_local(const struct berm_fd *local, const char *path) {
    if (close(local->fd) < 0)
        die(path);
}

void file_put(const char *id, const char *path, const char *from) {
    Berm__V1__WriteFileHeader header = BERM__V1__WRITE_FILE_HEADER__INIT;
    Berm__V1__WriteFileResponse *answer;
    struct berm_error e;
    struct berm_fd local = open_local(from, O_RDONLY);
    header.sandbox_id = (char *)id;
    header.path = (char *)path;
    check(berm_file_write(client, &header, berm_fd_source, &local, &answer, &e), &e, path);
    if (answer->info->size_bytes != local.next)
        die_of(path, "not all bytes arrived");
    berm_free(answer);
    close_local(&local, from);
}

void file_get(const char *id, const char *path, const char *to) {
    Berm__V1__ReadFileRequest request = BERM__V1__READ_FILE_REQUEST__INIT;
    Berm__V1__ReadFileEnd *end;
    struct berm_error e;
    struct berm_fd local = open_local(to, O_WRONLY | O_CREAT | O_TRUNC);
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    check(berm_file_read(client, &request, berm_fd_sink, &local, &end, &e), &e, path);
    if (end->total_bytes != local.next)
        die_of(path, "not all bytes arrived");
    berm_free(end);
    close_local(&local, to);
}

uint64_t tree_put(const char *id, const char *path, const char *tar) {
    Berm__V1__UploadTreeHeader header = BERM__V1__UPLOAD_TREE_HEADER__INIT;
    Berm__V1__UploadTreeResponse *answer;
    struct berm_error e;
    struct berm_fd local = open_local(tar, O_RDONLY);
    header.sandbox_id = (char *)id;
    header.path = (char *)path;
    check(berm_tree_upload(client, &header, berm_fd_source, &local, &answer, &e), &e, path);
    uint64_t n_files = answer->files;
    berm_free(answer);
    close_local(&local, tar);
    return n_files;
}

uint64_t tree_get(const char *id, const char *path, const char *tar) {
    Berm__V1__DownloadTreeRequest request = BERM__V1__DOWNLOAD_TREE_REQUEST__INIT;
    Berm__V1__DownloadTreeEnd *end;
    struct berm_error e;
    struct berm_fd local = open_local(tar, O_WRONLY | O_CREAT | O_TRUNC);
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    check(berm_tree_download(client, &request, berm_fd_sink, &local, &end, &e), &e, path);
    uint64_t n_files = end->files;
    berm_free(end);
    close_local(&local, tar);
    return n_files;
}

void file_stat(const char *id, const char *path) {
    Berm__V1__StatFileRequest request = BERM__V1__STAT_FILE_REQUEST__INIT;
    struct berm_error e;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    check(berm_file_stat(client, &request, NULL, &e), &e, path);
}

size_t file_list(const char *id, const char *path) {
    Berm__V1__ListFilesRequest request = BERM__V1__LIST_FILES_REQUEST__INIT;
    Berm__V1__ListFilesResponse *answer;
    struct berm_error e;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    check(berm_file_list(client, &request, &answer, &e), &e, path);
    size_t n_entries = answer->n_entries;
    berm_free(answer);
    return n_entries;
}

void file_remove(const char *id, const char *path) {
    Berm__V1__RemoveRequest request = BERM__V1__REMOVE_REQUEST__INIT;
    struct berm_error e;
    request.sandbox_id = (char *)id;
    request.path = (char *)path;
    request.recursive = true;
    check(berm_file_remove(client, &request, NULL, &e), &e, path);
}
