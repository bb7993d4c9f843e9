#include "base/packer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fd.h"

#define GO_ON 0 /* no event yet */

static unsigned on_name(struct walk *w, unsigned char type) {
    struct packer *p = container_of(w, struct packer, walk);
    (void)type;
    for (size_t i = 0; i < p->n_excludes; i++)
        if (pattern_matches(p->excludes[i], w->relative))
            return WALK_SKIP;
    return WALK_VISIT | WALK_ENTER;
}

int packer_exclude(struct packer *p, struct arena *a, struct str pattern, struct err *e) {
    if (p->n_excludes == PACKER_EXCLUDES_MAX)
        return err_field(e, "excludes", "excludes: must have at most %d entries",
                         PACKER_EXCLUDES_MAX);
    return pattern_new(a, pattern, PATTERN_ANY, "excludes", &p->excludes[p->n_excludes++], e);
}

int packer_begin(struct packer *p, int source, const char *name) {
    p->is_one = name != NULL;
    p->file = p->is_one ? source : -1;
    p->walk.root = -1;
    if (p->is_one) {
        snprintf(p->member.path, sizeof p->member.path, "%s", name);
        return 0;
    }
    p->walk.on_name = on_name;
    p->walk.entries_left = UINT64_MAX;
    return walk_init(&p->walk, source, "/");
}

void packer_done(struct packer *p) {
    walk_done(&p->walk);
    if (p->file >= 0)
        close(TAKE_FD(p->file));
}

static int packer_unreadable(struct packer *p, int error) {
    p->error = error;
    return PACKER_UNREADABLE;
}

static int packer_put_headers(struct packer *p, enum tar_type type, const struct stat *st,
                              struct buf *out) {
    struct tar_member *m = &p->member;
    m->type = type;
    m->mode = st->st_mode & p->mode_mask;
    m->uid = p->has_owners ? st->st_uid : 0;
    m->gid = p->has_owners ? st->st_gid : 0;
    m->modified_s = st->st_mtim.tv_sec;
    m->size = type == TAR_FILE ? (uint64_t)MAX(st->st_size, 0) : 0;
    p->files += type != TAR_DIRECTORY;
    p->directories += type == TAR_DIRECTORY;
    return tar_put(out, m);
}

/* --- contents --- */

static void packer_end_file(struct packer *p) {
    close(TAKE_FD(p->file));
    p->zeros = p->left + tar_padding(p->member.size);
    p->left = 0;
}

/* Packs p->file, starting with its headers. */
static int packer_begin_file(struct packer *p, struct buf *out) {
    struct stat st;
    if (fstat(p->file, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(TAKE_FD(p->file));
        return packer_unreadable(p, ESTALE); /* the file was replaced meanwhile */
    }
    int r = packer_put_headers(p, TAR_FILE, &st, out);
    p->left = p->member.size;
    if (p->left == 0)
        packer_end_file(p);
    return r;
}

static int packer_put_contents(struct packer *p, struct buf *out) {
    uint8_t *at;
    size_t n = (size_t)MIN(p->left, (uint64_t)(buf_available(out) - PACKER_HEADERS));
    int r = buf_reserve(out, n, &at);
    if (r < 0)
        return r;
    ssize_t got = read(p->file, at, n);
    if (got < 0 && errno == EINTR)
        return GO_ON;
    if (got <= 0) {
        p->error = got < 0 ? errno : 0;
        packer_end_file(p);
        return PACKER_SHORT;
    }
    buf_commit(out, (size_t)got);
    p->total_bytes += (uint64_t)got;
    p->left -= (uint64_t)got;
    if (p->left == 0)
        packer_end_file(p);
    return GO_ON;
}

static int packer_put_zeros(struct packer *p, struct buf *out) {
    uint8_t *at;
    size_t n = (size_t)MIN(p->zeros, (uint64_t)(buf_available(out) - PACKER_HEADERS));
    int r = buf_reserve(out, n, &at);
    if (r < 0)
        return r;
    memset(at, 0, n);
    buf_commit(out, n);
    p->zeros -= n;
    return GO_ON;
}

/* --- members --- */

static int packer_put_symlink(struct packer *p, int link, const struct stat *st, struct buf *out) {
    struct tar_member *m = &p->member;
    ssize_t n = readlinkat(link, "", m->target, sizeof m->target - 1);
    if (n < 0)
        return packer_unreadable(p, errno);
    m->target[n] = '\0';
    if (p->refuses_ways_out && tar_link_leads_outside(m->path, m->target))
        return PACKER_LEADS_OUT;
    return packer_put_headers(p, TAR_SYMLINK, st, out);
}

/* Packs the current entry of the walk. A regular file is opened once, for reading. If that open
 * fails, if the file was replaced, or if the entry has another type, the packer opens the entry
 * with O_PATH first, which never blocks and has no side effects on special files. */
static int packer_put_entry(struct packer *p, struct buf *out) {
    const struct walk *w = &p->walk;
    struct stat st;
    p->file = w->type == DT_REG ? fd_open_unmounted(w->root, w->relative) : -1;
    int r = p->file >= 0 ? packer_begin_file(p, out) : PACKER_UNREADABLE;
    if (r != PACKER_UNREADABLE)
        return r;
    AUTO_CLOSE int look = fd_open_entry(w->root, w->relative, O_PATH);
    if (look < 0)
        return look == -ENOENT ? GO_ON : packer_unreadable(p, -look);
    if (fstat(look, &st) < 0)
        return packer_unreadable(p, errno);
    if (S_ISLNK(st.st_mode))
        return packer_put_symlink(p, look, &st, out);
    if (S_ISDIR(st.st_mode)) {
        snprintf(p->member.path, sizeof p->member.path, "%s/", w->relative);
        return packer_put_headers(p, TAR_DIRECTORY, &st, out);
    }
    if (!S_ISREG(st.st_mode))
        return PACKER_SPECIAL;
    p->file = fd_open_entry(w->root, w->relative, O_RDONLY);
    if (p->file < 0)
        return p->file == -ENOENT ? GO_ON : packer_unreadable(p, -p->file);
    return packer_begin_file(p, out);
}

static int packer_put_start(struct packer *p, struct buf *out) {
    struct stat st;
    strcpy(p->member.path, "./");
    if (fstat(p->walk.root, &st) < 0)
        return -errno;
    return packer_put_headers(p, TAR_DIRECTORY, &st, out);
}

static int packer_put_next(struct packer *p, struct buf *out) {
    int r = p->is_one ? WALK_END : walk_next(&p->walk);
    if (r < 0)
        return r;
    if (r == WALK_END && p->walk.is_cut)
        return -E2BIG;
    if (r == WALK_END) {
        p->is_over = true;
        p->zeros = (uint64_t)2 * TAR_BLOCK;
        return GO_ON;
    }
    strcpy(p->member.path, p->walk.relative);
    p->member.target[0] = '\0';
    return r == WALK_UNREADABLE ? packer_unreadable(p, p->walk.error) : packer_put_entry(p, out);
}

int packer_next(struct packer *p, struct buf *out) {
    int r = GO_ON;
    if (!p->has_begun)
        r = p->is_one ? packer_begin_file(p, out) : p->has_start ? packer_put_start(p, out) : GO_ON;
    p->has_begun = true;
    while (r == GO_ON) {
        if (buf_available(out) <= PACKER_HEADERS)
            r = PACKER_FULL;
        else if (p->zeros > 0)
            r = packer_put_zeros(p, out);
        else if (p->file >= 0)
            r = packer_put_contents(p, out);
        else if (p->is_over)
            r = PACKER_END;
        else
            r = packer_put_next(p, out);
    }
    return r;
}

int packer_write(struct packer *p, struct buf *out, int fd) {
    for (;;) {
        int r = packer_next(p, out);
        if (r != PACKER_FULL && r != PACKER_END)
            return r;
        int written = fd_write_all(fd, buf_data(out), buf_len(out));
        buf_clear(out);
        if (written < 0 || r == PACKER_END)
            return written < 0 ? written : r;
    }
}
