/* cp: copies files and trees into and out of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <libgen.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/cli.h"

#define DRAW_US 100000 /* time between two updates of the progress line */
#define BAR 30

/* --- progress --- */

void progress_begin(struct progress *p, struct cli *cli, uint64_t total_bytes) {
    *p = (struct progress){.shown = isatty(STDERR_FILENO) && !cli->json && !opt_has(cli, "quiet"),
                           .total_bytes = total_bytes};
}

void progress_at(struct progress *p, uint64_t bytes) {
    uint64_t now = clock_us();
    if (!p->shown || now - p->drawn_us < DRAW_US)
        return;
    p->drawn_us = now;
    double mib = (double)bytes / (1 << 20);
    if (p->total_bytes == 0) {
        fprintf(stderr, "\r%10.1f MiB", mib);
        return;
    }
    unsigned percent = (unsigned)(MIN(bytes, p->total_bytes) * 100 / p->total_bytes);
    unsigned filled = percent * BAR / 100;
    static const char marks[] = "##############################";
    fprintf(stderr, "\r[%.*s%*s] %3u%% %10.1f MiB", (int)filled, marks, (int)(BAR - filled), "",
            percent, mib);
}

void progress_end(struct progress *p) {
    if (p->shown && p->drawn_us != 0)
        fprintf(stderr, "\r\033[K");
    p->drawn_us = 0;
}

/* --- in --- */

static uint64_t size_of_tree(const char *root) {
    char *roots[] = {(char *)root, NULL};
    uint64_t total = 0;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *f; walk && (f = fts_read(walk));)
        if (f->fts_info == FTS_F)
            total += (uint64_t)f->fts_statp->st_size;
    if (walk)
        fts_close(walk);
    return total;
}

int tree_put(struct cli *cli, const char *local, char *sandbox_id, char *path,
             uint64_t *ret_left_out) {
    struct berm_error e;
    struct progress progress;
    Berm__V1__UploadTreeHeader header = BERM__V1__UPLOAD_TREE_HEADER__INIT;
    Berm__V1__UploadTreeResponse *response;
    progress_begin(&progress, cli, isatty(STDERR_FILENO) ? size_of_tree(local) : 0);
    struct pack *pack = pack_new(cli, local, &progress);
    header.sandbox_id = sandbox_id;
    remote_path(path, &header.path, &header.raw_path);
    if (opt_has(cli, "user"))
        header.user = opt_get(cli, "user");
    int r = berm_tree_upload(cli->client, &header, pack_source, pack, &response, &e);
    *ret_left_out = pack_left_out(pack);
    progress_end(&progress);
    pack_free(pack);
    if (r < 0)
        return cli_fail(cli, &e);
    if (cli->json && !cli->command->has_program) /* `berm run` prints its own response */
        cli_print_json(response);
    berm_free(response);
    return 0;
}

struct file_copy {
    struct berm_fd fd;
    struct progress progress;
};

static ssize_t file_source(void *user, uint64_t offset, void *into, size_t n) {
    struct file_copy *f = user;
    progress_at(&f->progress, offset);
    return berm_fd_source(&f->fd, offset, into, n);
}

static int file_sink(void *user, uint64_t offset, const void *bytes, size_t n) {
    struct file_copy *f = user;
    progress_at(&f->progress, offset + n);
    return berm_fd_sink(&f->fd, offset, bytes, n);
}

static int file_put(struct cli *cli, int fd, const struct stat *st, char *sandbox_id, char *path) {
    struct berm_error e;
    struct file_copy copy = {.fd.fd = fd};
    Berm__V1__WriteFileHeader header = BERM__V1__WRITE_FILE_HEADER__INIT;
    Berm__V1__FileMode mode = BERM__V1__FILE_MODE__INIT;
    Berm__V1__WriteFileResponse *response;
    header.sandbox_id = sandbox_id;
    header.make_parents = true;
    remote_path(path, &header.path, &header.raw_path);
    if (opt_has(cli, "user"))
        header.user = opt_get(cli, "user");
    if (S_ISREG(st->st_mode)) {
        mode.bits = st->st_mode & 0777;
        header.mode = &mode;
    }
    progress_begin(&copy.progress, cli, S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0);
    int r = copy.progress.shown
                ? berm_file_write(cli->client, &header, file_source, &copy, &response, &e)
                : berm_file_write(cli->client, &header, berm_fd_source, &copy.fd, &response, &e);
    progress_end(&copy.progress);
    if (r < 0)
        return cli_fail(cli, &e);
    if (cli->json)
        cli_print_json(response);
    berm_free(response);
    return 0;
}

/* Stats the path, following links. Returns -code on failure. */
static int remote_stat(struct cli *cli, char *sandbox_id, char *path,
                       Berm__V1__StatFileResponse **ret, struct berm_error *e) {
    Berm__V1__StatFileRequest request = BERM__V1__STAT_FILE_REQUEST__INIT;
    request.sandbox_id = sandbox_id;
    request.follow = true;
    remote_path(path, &request.path, &request.raw_path);
    if (opt_has(cli, "user"))
        request.user = opt_get(cli, "user");
    return berm_file_stat(cli->client, &request, ret, e);
}

static const char *last_name(struct cli *cli, const char *path) {
    return basename(cli_text(cli, "%s", path));
}

static bool ends_with_slash(const char *path) {
    return path[0] != '\0' && path[strlen(path) - 1] == '/';
}

/* If the target is an existing directory, appends the source's name. */
static char *put_target(struct cli *cli, const char *local, char *sandbox_id, char *path) {
    struct berm_error e;
    Berm__V1__StatFileResponse *there;
    const char *name = last_name(cli, local);
    bool inside = ends_with_slash(path);
    if (strcmp(local, "-") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return path;
    if (remote_stat(cli, sandbox_id, path, &there, &e) == 0) {
        inside = there->info->type == BERM__V1__FILE_TYPE__FILE_TYPE_DIRECTORY;
        berm_free(there);
    }
    return inside ? cli_text(cli, "%s%s%s", path, ends_with_slash(path) ? "" : "/", name) : path;
}

static int copy_in(struct cli *cli, const char *local, char *sandbox_id, char *path) {
    struct stat st;
    bool is_stdin = strcmp(local, "-") == 0;
    AUTO_CLOSE int fd = is_stdin ? dup(STDIN_FILENO) : open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_complain("%s: %s", local, strerror(errno));
    path = put_target(cli, local, sandbox_id, path);
    if (!S_ISDIR(st.st_mode))
        return file_put(cli, fd, &st, sandbox_id, path);
    uint64_t left_out = 0;
    int status = tree_put(cli, local, sandbox_id, path, &left_out);
    return left_out > 0 ? EXIT_BERM : status;
}

/* --- out --- */

/* Opens the directory that a tree is copied into, and creates it if it is missing. An earlier copy
 * may have put a link of that name there, so cp follows it only if the user wrote a trailing
 * slash. */
static int tree_root(const char *local) {
    int follow = ends_with_slash(local) ? 0 : O_NOFOLLOW;
    if (mkdir(local, 0777) < 0 && errno != EEXIST)
        return cli_complain("%s: %s", local, strerror(errno)), -1;
    int root = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    struct stat st;
    if (root < 0 && lstat(local, &st) == 0 && S_ISLNK(st.st_mode))
        return cli_complain("%s is a symbolic link: remove it, or append a slash to follow it",
                            local),
               -1;
    if (root < 0)
        cli_complain("%s: %s", local, strerror(errno));
    return root;
}

static int tree_get(struct cli *cli, char *sandbox_id, char *path, const char *local) {
    struct berm_error e;
    struct progress progress;
    Berm__V1__DownloadTreeRequest request = BERM__V1__DOWNLOAD_TREE_REQUEST__INIT;
    Berm__V1__DownloadTreeEnd *end = NULL;
    AUTO_CLOSE int root = tree_root(local);
    if (root < 0)
        return EXIT_BERM;
    request.sandbox_id = sandbox_id;
    remote_path(path, &request.path, &request.raw_path);
    if (opt_has(cli, "user"))
        request.user = opt_get(cli, "user");
    progress_begin(&progress, cli, 0);
    struct unpack *unpack = unpack_new(cli, root, &progress);
    int r = berm_tree_download(cli->client, &request, unpack_sink, unpack, &end, &e);
    progress_end(&progress);
    if (r < 0) /* print why the copy is incomplete */
        cli_fail(cli, &e);
    else if (unpack_end(unpack) && end && end->skipped_unreadable == 0) {
        if (cli->json)
            cli_print_json(end);
        berm_free(end);
        return 0;
    }
    if (end && end->skipped_unreadable > 0)
        cli_complain("cannot read %llu files or directories; the copy omits them",
                     (unsigned long long)end->skipped_unreadable);
    berm_free(end);
    return EXIT_BERM;
}

static int read_into(struct cli *cli, char *sandbox_id, char *path, int fd, uint64_t size_bytes) {
    struct berm_error e;
    struct file_copy copy = {.fd.fd = fd};
    Berm__V1__ReadFileRequest request = BERM__V1__READ_FILE_REQUEST__INIT;
    request.sandbox_id = sandbox_id;
    remote_path(path, &request.path, &request.raw_path);
    if (opt_has(cli, "user"))
        request.user = opt_get(cli, "user");
    progress_begin(&copy.progress, cli, size_bytes);
    int r = berm_file_read(cli->client, &request, file_sink, &copy, NULL, &e);
    int error = errno;
    progress_end(&copy.progress);
    return r < 0   ? cli_fail(cli, &e)
           : r > 0 ? cli_complain("cannot write the copy: %s", strerror(error))
                   : 0;
}

/* Writes to a temporary file next to the target first, so that the old file stays until the copy is
 * complete. */
static int file_get(struct cli *cli, char *sandbox_id, char *path, const char *local,
                    const Berm__V1__FileInfo *info) {
    if (strcmp(local, "-") == 0)
        return read_into(cli, sandbox_id, path, STDOUT_FILENO, info->size_bytes);
    const char *part = cli_text(cli, "%s.berm-%s", local, cli_random(cli));
    AUTO_CLOSE int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, info->mode & 0777);
    if (fd < 0)
        return cli_complain("%s: %s", part, strerror(errno));
    int status = read_into(cli, sandbox_id, path, fd, info->size_bytes);
    if (status == 0 && rename(part, local) < 0)
        status = cli_complain("%s: %s", local, strerror(errno));
    if (status != 0)
        unlink(part);
    else if (cli->json)
        cli_print_json(info);
    return status;
}

static int copy_out(struct cli *cli, char *sandbox_id, char *path, const char *local) {
    struct berm_error e;
    struct stat st;
    Berm__V1__StatFileResponse *there;
    if (remote_stat(cli, sandbox_id, path, &there, &e) < 0)
        return cli_fail(cli, &e);
    cli_keep(cli, there);
    const char *name = last_name(cli, path);
    bool has_name = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "/") != 0;
    if (strcmp(local, "-") != 0 && has_name &&
        (ends_with_slash(local) || (lstat(local, &st) == 0 && S_ISDIR(st.st_mode))))
        local = cli_text(cli, "%s%s%s", local, ends_with_slash(local) ? "" : "/", name);
    if (there->info->type != BERM__V1__FILE_TYPE__FILE_TYPE_DIRECTORY)
        return file_get(cli, sandbox_id, path, local, there->info);
    if (strcmp(local, "-") == 0)
        return cli_complain(
            "cannot write the directory %s to standard output; name a local directory", path);
    return tree_get(cli, sandbox_id, path, local);
}

int cmd_cp(struct cli *cli) {
    char *sandbox[2], *path[2];
    bool is_remote[2];
    for (int i = 0; i < 2; i++)
        is_remote[i] = remote_parse(cli, cli->args[i], &sandbox[i], &path[i]);
    if (is_remote[0] == is_remote[1])
        return opt_usage(cli, "one argument must be SANDBOX:PATH, the other a local path");
    return is_remote[1] ? copy_in(cli, cli->args[0], sandbox[1], path[1])
                        : copy_out(cli, sandbox[0], path[0], cli->args[1]);
}
