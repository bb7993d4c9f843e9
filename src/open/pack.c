#include "open/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/fd.h"
#include "base/tar.h"
#include "base/pattern.h"
#include "base/walk.h"

#define OUT_BYTES 65536
#define OUT_ROOM ((size_t)8 * TAR_PATH_MAX) /* for the headers of a member */
#define ARENA_BYTES 65536
#define ARENA_MAX ((size_t)16 << 20)

struct pack {
    struct walk walk;
    struct arena arena;
    struct pattern *excludes[OPEN_EXCLUDES_MAX];
    size_t n_excludes;
    int out;
    bool is_private;
    struct buf bytes; /* not yet written */
    struct tar_member member;
    struct err *e;
    bool failed; /* e says why */
};

static void fail(struct pack *p, enum err_code code, const char *what) {
    if (!p->failed)
        err_set(p->e, code, "%.100s %s", p->member.path, what);
    p->failed = true;
    p->walk.stop = true;
}

/* --- bytes --- */

static void flush(struct pack *p) {
    while (!p->failed && buf_len(&p->bytes) > 0) {
        ssize_t n = write(p->out, buf_data(&p->bytes), buf_len(&p->bytes));
        if (n > 0)
            buf_consume(&p->bytes, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = p->out, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            fail(p, ERR_GUEST_LOST, "is the last that the sandbox read");
    }
}

/* Room for at least one byte; where to put them, and how many fit. */
static uint8_t *room(struct pack *p, size_t *ret_n) {
    uint8_t *at = NULL;
    if (buf_len(&p->bytes) >= OUT_BYTES)
        flush(p);
    *ret_n = p->failed ? 0 : OUT_BYTES - buf_len(&p->bytes);
    if (!p->failed && buf_reserve(&p->bytes, *ret_n, &at) < 0)
        fail(p, ERR_LIMIT_REACHED, "finds no memory");
    return p->failed ? NULL : at;
}

static void put_zeros(struct pack *p, size_t n) {
    while (n > 0) {
        size_t fits;
        uint8_t *at = room(p, &fits);
        if (!at)
            return;
        fits = MIN(fits, n);
        memset(at, 0, fits);
        buf_commit(&p->bytes, fits);
        n -= fits;
    }
}

/* --- members --- */

static void put_header(struct pack *p, enum tar_type type, const struct stat *st) {
    struct tar_member *m = &p->member;
    m->type = type;
    m->mode = st->st_mode & (p->is_private ? 0600 : 07777);
    m->uid = m->gid = 0; /* who owns it outside is nobody's business inside */
    m->modified_s = st->st_mtim.tv_sec;
    m->size = type == TAR_FILE ? (uint64_t)MAX(st->st_size, 0) : 0;
    if (tar_put(&p->bytes, m) < 0)
        fail(p, ERR_LIMIT_REACHED, "finds no memory");
    if (buf_len(&p->bytes) >= OUT_BYTES)
        flush(p);
}

/* As large as when it was opened; one that shrinks meanwhile cannot be told whole any more. */
static void put_file(struct pack *p, int fd, const struct stat *st) {
    uint64_t left = (uint64_t)MAX(st->st_size, 0);
    put_header(p, TAR_FILE, st);
    while (left > 0) {
        size_t fits;
        uint8_t *at = room(p, &fits);
        if (!at)
            return;
        ssize_t n = read(fd, at, (size_t)MIN((uint64_t)fits, left));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fail(p, ERR_FILE_CHANGED, n < 0 ? "cannot be read" : "shrank while it was read");
            return;
        }
        buf_commit(&p->bytes, (size_t)n);
        left -= (uint64_t)n;
    }
    put_zeros(p, tar_padding((uint64_t)MAX(st->st_size, 0)));
}

/* By its spelling, from where the symlink lies. */
static bool leaves_tree(const char *path, const char *target) {
    int depth = 0;
    if (target[0] == '/' || target[0] == '\0')
        return true;
    for (const char *c = path; *c; c++)
        depth += *c == '/';
    for (const char *at = target; *at != '\0';) {
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.')
            depth--;
        else if (n > 0 && !(n == 1 && at[0] == '.'))
            depth++;
        if (depth < 0)
            return true;
        at += n + (at[n] == '/');
    }
    return false;
}

static void put_symlink(struct pack *p, int fd, const struct stat *st) {
    ssize_t n = readlinkat(fd, "", p->member.target, sizeof p->member.target - 1);
    if (n < 0) {
        fail(p, ERR_FILE_DENIED, "cannot be read");
        return;
    }
    p->member.target[n] = '\0';
    if (leaves_tree(p->member.path, p->member.target))
        fail(p, ERR_TREE_INVALID, "is a symlink that leaves the tree");
    else
        put_header(p, TAR_SYMLINK, st);
}

static void put_regular(struct pack *p) {
    struct stat st;
    AUTO_CLOSE int fd = fd_open_entry(p->walk.root, p->walk.relative, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        fail(p, ERR_FILE_DENIED, "cannot be read by the caller");
    else
        put_file(p, fd, &st);
}

/* --- the walk --- */

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
    snprintf(p->member.path, sizeof p->member.path, "%s", w->relative);
    p->member.target[0] = '\0';
    AUTO_CLOSE int look = fd_open_entry(w->root, w->relative, O_PATH);
    if (look == -ENOENT)
        return; /* removed meanwhile */
    if (look < 0 || fstat(look, &st) < 0)
        fail(p, ERR_FILE_DENIED, "cannot be read by the caller");
    else if (S_ISLNK(st.st_mode))
        put_symlink(p, look, &st);
    else if (S_ISREG(st.st_mode))
        put_regular(p);
    else if (!S_ISDIR(st.st_mode))
        fail(p, ERR_TREE_INVALID, "is neither a file, a directory nor a symlink");
    else if (strlen(w->relative) >= TAR_PATH_MAX - 1)
        fail(p, ERR_TREE_INVALID, "has a path that is too long");
    else {
        strcat(p->member.path, "/");
        put_header(p, TAR_DIRECTORY, &st);
    }
}

static int take_excludes(struct pack *p, const struct open_pack *q, struct err *e) {
    const char *at = q->excludes;
    if (arena_init(&p->arena, ARENA_BYTES, ARENA_MAX) < 0)
        return err_set(e, ERR_LIMIT_REACHED, "no memory for the patterns");
    for (; p->n_excludes < q->n_excludes; at += strlen(at) + 1)
        if (pattern_new(&p->arena, str_of(at), PATTERN_ANY, "excludes",
                        &p->excludes[p->n_excludes++], e) < 0)
            return -(int)e->code;
    return 0;
}

static void pack_tree(struct pack *p, int source) {
    p->walk.on_name = on_name;
    p->walk.on_entry = on_entry;
    p->walk.entries_left = UINT64_MAX;
    int r = walk_init(&p->walk, source, "/");
    if (r == 0)
        r = walk_run(&p->walk);
    if (r < 0 || p->walk.is_cut)
        fail(p, ERR_LIMIT_REACHED, "is as far as the tree could be read");
    if (p->walk.unreadable > 0)
        fail(p, ERR_FILE_DENIED, "is followed by a directory that the caller cannot read");
}

static void pack_one(struct pack *p, int source, const char *name) {
    struct stat st;
    snprintf(p->member.path, sizeof p->member.path, "%s", name);
    if (fstat(source, &st) < 0)
        fail(p, ERR_FILE_DENIED, "cannot be read");
    else
        put_file(p, source, &st);
}

int pack_source(int source, bool is_file, const struct open_pack *q, int pipe, struct err *e) {
    struct pack *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_LIMIT_REACHED, "no memory to pack");
    p->out = pipe;
    p->is_private = (q->head.flags & OPEN_PRIVATE) != 0;
    p->e = e;
    buf_init(&p->bytes, OUT_BYTES + OUT_ROOM);
    if (take_excludes(p, q, e) < 0)
        return -(int)e->code; /* the process ends */
    if (is_file)
        pack_one(p, source, q->name);
    else
        pack_tree(p, source);
    if (!p->failed)
        put_zeros(p, (size_t)2 * TAR_BLOCK);
    flush(p);
    return p->failed ? -(int)e->code : 0;
}
