/* A local tree as a tar stream, in the order of its names. What a sandbox would refuse is left out, and told:
 * special files, and links that lead outside the tree. A file that shrinks while it is read ends in zeros. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/tar.h"
#include "cli/cli.h"

#define OUT_BYTES ((size_t)1 << 20)
#define READ_BYTES ((size_t)256 * 1024)

struct pack {
    struct cli *cli;
    struct progress *progress;
    char *root;
    FTS *walk;
    struct tar_member member;
    int file; /* being packed; -1 = none */
    uint64_t left;
    uint64_t done_bytes; /* of contents, for the progress */
    struct buf out;
    bool is_over;
    uint64_t left_out;
};

static void left_out(struct pack *k, const FTSENT *f, const char *why) {
    k->left_out++;
    progress_end(k->progress);
    cli_complain("left out %s: %s", cli_clean(k->cli, f->fts_path), why);
}

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* From the beginning, also for the second time. */
static int begin(struct pack *k) {
    char *roots[] = {k->root, NULL};
    if (k->walk)
        fts_close(k->walk);
    if (k->file >= 0)
        close(TAKE_FD(k->file));
    buf_clear(&k->out);
    k->is_over = false;
    k->left = k->done_bytes = k->left_out = 0;
    k->walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    return k->walk ? 0 : -errno;
}

/* Whether the member's target was read and may go in. */
static bool take_link(struct pack *k, const FTSENT *f) {
    struct tar_member *m = &k->member;
    ssize_t n = readlink(f->fts_accpath, m->target, sizeof m->target - 1);
    if (n < 0)
        return left_out(k, f, strerror(errno)), false;
    m->target[n] = '\0';
    m->type = TAR_SYMLINK;
    if (tar_link_leads_outside(m->path, m->target))
        return left_out(k, f, "the link leads outside"), false;
    return true;
}

static bool take_file(struct pack *k, const FTSENT *f) {
    struct stat st;
    k->file = open(f->fts_accpath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (k->file < 0)
        return left_out(k, f, strerror(errno)), false;
    if (fstat(k->file, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(TAKE_FD(k->file));
        return left_out(k, f, "it changed meanwhile"), false;
    }
    k->member.type = TAR_FILE;
    k->member.size = k->left = (uint64_t)st.st_size;
    return true;
}

/* Whether k->member is one. */
static bool take_entry(struct pack *k, const FTSENT *f) {
    struct tar_member *m = &k->member;
    const char *path = f->fts_path + strlen(k->root);
    path += strspn(path, "/");
    if (f->fts_info == FTS_DP)
        return false;
    if (f->fts_info == FTS_DNR || f->fts_info == FTS_ERR || f->fts_info == FTS_NS)
        return left_out(k, f, strerror(f->fts_errno)), false;
    if (strlen(path) > TAR_PATH_MAX)
        return left_out(k, f, "its path is too long"), false;
    m->type = TAR_DIRECTORY;
    m->mode = f->fts_statp->st_mode & 0777;
    m->modified_s = f->fts_statp->st_mtime;
    m->size = 0;
    m->target[0] = '\0';
    strcpy(m->path, path[0] == '\0' ? "." : path);
    switch (f->fts_info) {
    case FTS_D:
        return true;
    case FTS_F:
        return take_file(k, f);
    case FTS_SL:
    case FTS_SLNONE:
        return take_link(k, f);
    default:
        return left_out(k, f, "it is neither file, directory nor link"), false;
    }
}

static int put_zeros(struct pack *k, size_t n) {
    uint8_t *at;
    int r = buf_reserve(&k->out, n, &at);
    if (r < 0)
        return r;
    memset(at, 0, n);
    buf_commit(&k->out, n);
    return 0;
}

static int put_contents(struct pack *k) {
    uint8_t *at;
    size_t n = (size_t)MIN(k->left, (uint64_t)READ_BYTES);
    int r = n > 0 ? buf_reserve(&k->out, n, &at) : 0;
    if (r < 0)
        return r;
    ssize_t got = n > 0 ? read(k->file, at, n) : 0;
    if (got < 0 && errno == EINTR)
        return 0;
    if (n > 0 && got <= 0) {
        memset(at, 0, n);
        got = (ssize_t)n;
    }
    if (n > 0)
        buf_commit(&k->out, (size_t)got);
    k->left -= (uint64_t)got;
    k->done_bytes += (uint64_t)got;
    progress_at(k->progress, k->done_bytes);
    if (k->left > 0)
        return 0;
    close(TAKE_FD(k->file));
    return put_zeros(k, tar_padding(k->member.size));
}

static int put_next(struct pack *k) {
    if (k->file >= 0)
        return put_contents(k);
    errno = 0;
    FTSENT *f = fts_read(k->walk);
    if (f)
        return take_entry(k, f) ? tar_put(&k->out, &k->member) : 0;
    if (errno != 0)
        return -errno;
    k->is_over = true;
    return put_zeros(k, (size_t)2 * TAR_BLOCK);
}

struct pack *pack_new(struct cli *cli, const char *root, struct progress *p) {
    struct pack *k = cli_alloc(cli, sizeof *k);
    k->cli = cli;
    k->progress = p;
    k->root = cli_text(cli, "%s", root);
    k->file = -1;
    for (size_t n = strlen(k->root); n > 1 && k->root[n - 1] == '/'; n--)
        k->root[n - 1] = '\0';
    buf_init(&k->out, OUT_BYTES);
    return k;
}

ssize_t pack_source(void *user, uint64_t offset, void *into, size_t n) {
    struct pack *k = user;
    int r = offset == 0 ? begin(k) : 0;
    while (r == 0 && buf_len(&k->out) < n && !k->is_over && buf_room(&k->out) > OUT_BYTES / 2)
        r = put_next(k);
    if (r < 0)
        return r;
    n = MIN(n, buf_len(&k->out));
    memcpy(into, buf_data(&k->out), n);
    buf_consume(&k->out, n);
    return (ssize_t)n;
}

uint64_t pack_left_out(const struct pack *k) {
    return k->left_out;
}

void pack_free(struct pack *k) {
    if (k->walk)
        fts_close(k->walk);
    if (k->file >= 0)
        close(k->file);
    buf_done(&k->out);
}
