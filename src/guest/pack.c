/* pack — a tree as a tar stream, in byte order of its paths, with names and contents exact.
 *
 * A file is packed with the size it had when opened: one that grows is cut there, one that shrinks or cannot be
 * read to its end is filled up with zeros, and counted as unreadable. Hard links are packed as files. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/pattern.h"
#include "base/tar.h"
#include "base/walk.h"
#include "guest/archive.h"
#include "guest/files.h"
#include "guest/newfile.h"
#include "guest/params.h"
#include "guest/path.h"

#define EXCLUDES_MAX 256
#define OUT_BYTES 65536
#define OUT_ROOM ((size_t)8 * PATH_LENGTH_MAX) /* for the headers of a member */

struct pack {
    struct walk walk;
    struct pattern *excludes[EXCLUDES_MAX];
    size_t n_excludes;
    int one;          /* the file, when the path names one; else -1 */
    const char *path; /* its path */
    int out, back;
    struct buf bytes; /* not yet written */
    struct tar_member member;
    struct archive_result result;
    int error; /* of writing: nobody reads any more */
};

static void flush(struct pack *p) {
    while (p->error == 0 && buf_len(&p->bytes) > 0) {
        ssize_t n = write(p->out, buf_data(&p->bytes), buf_len(&p->bytes));
        if (n < 0 && errno != EINTR)
            p->error = -errno;
        if (n > 0)
            buf_consume(&p->bytes, (size_t)n);
    }
    if (p->error != 0)
        p->walk.stop = true;
}

/* Room for at least one byte; where to put them, and how many fit. */
static uint8_t *room(struct pack *p, size_t *ret_n) {
    uint8_t *at;
    if (buf_len(&p->bytes) >= OUT_BYTES)
        flush(p);
    *ret_n = p->error == 0 ? OUT_BYTES - buf_len(&p->bytes) : 0;
    if (*ret_n > 0 && buf_reserve(&p->bytes, *ret_n, &at) < 0)
        p->error = -ENOMEM;
    return p->error == 0 ? at : NULL;
}

static void put_zeros(struct pack *p, uint64_t n) {
    while (n > 0) {
        size_t fits;
        uint8_t *at = room(p, &fits);
        if (!at)
            return;
        fits = (size_t)MIN((uint64_t)fits, n);
        memset(at, 0, fits);
        buf_commit(&p->bytes, fits);
        n -= fits;
    }
}

static void put_header(struct pack *p, enum tar_type type, const struct stat *st) {
    struct tar_member *m = &p->member;
    m->type = type;
    m->mode = st->st_mode & 07777;
    m->uid = st->st_uid;
    m->gid = st->st_gid;
    m->modified_s = st->st_mtim.tv_sec;
    m->size = type == TAR_FILE ? (uint64_t)MAX(st->st_size, 0) : 0;
    int r = tar_put(&p->bytes, m);
    if (r < 0)
        p->error = r;
    if (buf_len(&p->bytes) >= OUT_BYTES)
        flush(p);
}

/* Takes fd. */
static void put_file(struct pack *p, int file, const struct stat *st) {
    AUTO_CLOSE int fd = file;
    uint64_t left = (uint64_t)MAX(st->st_size, 0);
    p->member.target[0] = '\0';
    put_header(p, TAR_FILE, st);
    while (left > 0) {
        size_t fits;
        uint8_t *at = room(p, &fits);
        if (!at)
            return;
        ssize_t n = read(fd, at, (size_t)MIN((uint64_t)fits, left));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        buf_commit(&p->bytes, (size_t)n);
        left -= (uint64_t)n;
    }
    p->result.skipped_unreadable += left > 0;
    p->result.total_bytes += (uint64_t)MAX(st->st_size, 0) - left;
    put_zeros(p, left + tar_padding((uint64_t)MAX(st->st_size, 0)));
    p->result.files++;
}

static void put_symlink(struct pack *p, int fd, const struct stat *st) {
    ssize_t n = readlinkat(fd, "", p->member.target, sizeof p->member.target - 1);
    if (n < 0) {
        p->result.skipped_unreadable++;
        return;
    }
    p->member.target[n] = '\0';
    put_header(p, TAR_SYMLINK, st);
    p->result.files++;
}

static unsigned on_name(struct walk *w, unsigned char type) {
    struct pack *p = container_of(w, struct pack, walk);
    (void)type;
    for (size_t i = 0; i < p->n_excludes; i++)
        if (pattern_matches(p->excludes[i], w->relative))
            return WALK_SKIP;
    return WALK_VISIT | WALK_ENTER;
}

static void on_entry(struct walk *w, unsigned char type) {
    struct pack *p = container_of(w, struct pack, walk);
    struct stat st;
    (void)type;
    AUTO_CLOSE int look = fd_open_entry(w->root, w->relative, O_PATH);
    if (look < 0 || fstat(look, &st) < 0) {
        p->result.skipped_unreadable += look != -ENOENT;
        return;
    }
    bool is_dir = S_ISDIR(st.st_mode);
    snprintf(p->member.path, sizeof p->member.path, "%s%s", w->relative, is_dir ? "/" : "");
    p->member.target[0] = '\0';
    if (is_dir) {
        put_header(p, TAR_DIRECTORY, &st);
        p->result.directories++;
    } else if (S_ISLNK(st.st_mode)) {
        put_symlink(p, look, &st);
    } else if (S_ISREG(st.st_mode)) {
        int fd = fd_open_entry(w->root, w->relative, O_RDONLY);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
            put_file(p, fd, &st);
            return;
        }
        p->result.skipped_unreadable++;
        if (fd >= 0)
            close(fd);
    } else {
        p->result.skipped_special++;
    }
}

static int pack_one(struct pack *p) {
    struct stat st;
    snprintf(p->member.path, sizeof p->member.path, "%s", strrchr(p->path, '/') + 1);
    if (fstat(p->one, &st) < 0)
        return -errno;
    put_file(p, TAKE_FD(p->one), &st);
    return 0;
}

static void pack_run(struct work *w) {
    struct pack *p = w->then_arg;
    struct err *e = &p->result.err;
    int r = p->one >= 0 ? pack_one(p) : walk_run(&p->walk);
    put_zeros(p, (uint64_t)2 * TAR_BLOCK);
    flush(p);
    p->result.skipped_unreadable += p->walk.unreadable;
    if (p->error == -EPIPE)
        err_set(e, ERR_CANCELLED, "nobody reads the archive");
    else if (p->error < 0 || r < 0)
        path_error(e, -(r < 0 ? r : p->error), "pack", p->path);
    else if (p->walk.is_cut)
        err_set(e, ERR_LIMIT_REACHED, "the names of a directory need more than %zu MiB",
                WALK_NAMES_MAX >> 20);
    archive_end(p->back, &p->result);
}

static int take_excludes(struct work *w, struct pack *p, struct err *e) {
    const struct json *list;
    if (params_node(w->params, "excludes", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return 0;
    if (list->items.count > EXCLUDES_MAX)
        return err_field(e, "excludes", "has more than %d entries", EXCLUDES_MAX);
    JSON_FOR_EACH(it, list) {
        if (it->type != JSON_STRING)
            return err_field(e, "excludes", "holds what is no text");
        if (pattern_new(w->arena, it->text, PATTERN_ANY, "excludes", &p->excludes[p->n_excludes++],
                        e) < 0)
            return -(int)e->code;
    }
    return 0;
}

int work_pack(struct work *w, struct err *e) {
    char *path;
    struct pack *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_LIMIT_REACHED, "no memory to pack");
    if (path_param(w->params, "path", w->workspace, w->arena, &path, e) < 0 ||
        take_excludes(w, p, e) < 0)
        return -(int)e->code;
    path_clean(path);
    p->path = path;
    p->one = -1;
    p->walk.on_name = on_name;
    p->walk.on_entry = on_entry;
    p->walk.entries_left = UINT64_MAX;
    buf_init(&p->bytes, OUT_BYTES + OUT_ROOM);
    int r = walk_init(&p->walk, path_open(path, O_PATH | O_DIRECTORY, 0), path);
    if (r == -ENOTDIR) {
        p->one = file_open_regular(path, e);
        if (p->one < 0)
            return p->one;
    } else if (r < 0) {
        return path_error(e, -r, "pack", path);
    }
    if (archive_begin(w, false, &p->out, &p->back, e) < 0)
        return -(int)e->code;
    w->then = pack_run;
    w->then_arg = p;
    return 0;
}
