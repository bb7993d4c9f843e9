/* edit — replaces exact bytes in a file, all edits or none, in one step.
 *
 * The outcome is made in memory and put in place of the file with its mode and owner, unless the file is no
 * longer what was read. Bounds: the file, and each outcome on the way, at most edit.file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/fd.h"
#include "base/limits.h"
#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/files/newfile.h"
#include "guest/params.h"
#include "guest/path.h"

struct edit {
    struct str old_text, new_text;
    bool replace_all;
};

struct bytes {
    char *p;
    size_t n;
};

struct target {
    char *path; /* where links led */
    int dir;
    const char *name;
    int fd;
    struct stat st;
};

static int no_memory(struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "no memory to edit");
}

static int too_large(struct err *e, const char *what) {
    int64_t max = limit_table[LIMIT_EDIT_FILE].value;
    return err_limit(e, ERR_FILE_TOO_LARGE, LIMIT_EDIT_FILE, max,
                     "%.150s is larger than %lld bytes", what, (long long)max);
}

static int take_edits(struct work *w, struct edit **ret, size_t *ret_n, struct err *e) {
    const struct json *list;
    size_t max_text = (size_t)limit_table[LIMIT_EDIT_TEXT].value, n = 0, total = 0;
    if (params_node(w->params, "edits", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return params_missing("edits", e);
    if (list->items.count < 1 || list->items.count > (size_t)limit_table[LIMIT_EDIT_COUNT].value)
        return err_field(e, "edits", "has not 1 to %lld entries",
                         (long long)limit_table[LIMIT_EDIT_COUNT].value);
    struct edit *edits = arena_zalloc(w->arena, list->items.count * sizeof *edits);
    if (!edits)
        return no_memory(e);
    JSON_FOR_EACH(it, list) {
        struct edit *edit = &edits[n++];
        if (it->type != JSON_OBJECT)
            return err_field(e, "edits", "holds what is no object");
        if (params_base64(it, "old_b64", w->arena, max_text, &edit->old_text, e) < 0 ||
            params_base64(it, "new_b64", w->arena, max_text, &edit->new_text, e) < 0 ||
            params_bool(it, "replace_all", &edit->replace_all, e) < 0)
            return -(int)e->code;
        if (edit->old_text.n == 0)
            return err_field(e, "edits", "entry %zu has nothing to find", n - 1);
        total += edit->old_text.n + edit->new_text.n;
    }
    if (total > max_text)
        return err_field(e, "edits", "are larger than %zu bytes together", max_text);
    *ret = edits;
    *ret_n = n;
    return 0;
}

/* Reads all of it; one byte more than may be shows that it is too large. */
static int read_all(int fd, struct bytes *ret) {
    size_t max = (size_t)limit_table[LIMIT_EDIT_FILE].value, n = 0;
    char *p = malloc(max + 1);
    if (!p)
        return -ENOMEM;
    while (n <= max) {
        ssize_t r = pread(fd, p + n, max + 1 - n, (off_t)n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r < 0)
            return -errno;
        if (r == 0)
            break;
        n += (size_t)r;
    }
    *ret = (struct bytes){p, n};
    return n > max ? -EFBIG : 0;
}

/* At least one line end, and all of them CRLF. */
static bool has_crlf(struct bytes b) {
    const char *end = b.p + b.n, *nl = NULL;
    bool found = false;
    for (const char *p = b.p; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
        if (nl == b.p || nl[-1] != '\r')
            return false;
        found = true;
    }
    return found;
}

/* LF that is not CRLF already becomes it. */
static int to_crlf(struct arena *a, struct str *text, struct err *e) {
    char *p = arena_alloc(a, 2 * text->n + 1);
    size_t n = 0;
    if (!p)
        return no_memory(e);
    for (size_t i = 0; i < text->n; i++) {
        if (text->p[i] == '\n' && (i == 0 || text->p[i - 1] != '\r'))
            p[n++] = '\r';
        p[n++] = text->p[i];
    }
    *text = (struct str){p, n};
    return 0;
}

static uint64_t count(struct bytes b, struct str what) {
    const char *p = b.p, *end = b.p + b.n;
    uint64_t n = 0;
    for (; (p = memmem(p, (size_t)(end - p), what.p, what.n)); p += what.n)
        n++;
    return n;
}

static int apply(struct bytes *b, const struct edit *edit, size_t i, uint64_t *replacements,
                 struct err *e) {
    uint64_t n = count(*b, edit->old_text);
    if (n == 0)
        return err_set(e, ERR_EDIT_NO_MATCH, "edit %zu: the text is not in the file", i);
    if (n > 1 && !edit->replace_all)
        return err_set(e, ERR_EDIT_NOT_UNIQUE, "edit %zu: the text is in the file %llu times", i,
                       (unsigned long long)n);
    uint64_t size = b->n - n * edit->old_text.n + n * edit->new_text.n;
    if (size > (uint64_t)limit_table[LIMIT_EDIT_FILE].value)
        return too_large(e, "the outcome");
    char *out = malloc(size + 1), *to = out;
    if (!out)
        return no_memory(e);
    const char *p = b->p, *end = b->p + b->n;
    for (const char *hit; (hit = memmem(p, (size_t)(end - p), edit->old_text.p, edit->old_text.n));
         p = hit + edit->old_text.n) {
        to = mempcpy(to, p, (size_t)(hit - p));
        to = mempcpy(to, edit->new_text.p, edit->new_text.n);
    }
    memcpy(to, p, (size_t)(end - p));
    free(b->p);
    *b = (struct bytes){out, size};
    *replacements += n;
    return 0;
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The name leads to the file that was read, and that still holds what was read. */
static int check_unchanged(const struct target *t, struct bytes was, struct err *e) {
    struct stat st;
    struct bytes now = {0};
    bool same = fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_same(&st, &t->st) &&
                read_all(t->fd, &now) == 0 && now.n == was.n && memcmp(now.p, was.p, now.n) == 0;
    free(now.p);
    return same ? 0 : err_set(e, ERR_FILE_CHANGED, "%.150s", t->path);
}

static int open_target(struct work *w, char *path, struct target *t, struct err *e) {
    mode_t mode;
    t->fd = path_open_regular(path, e);
    if (t->fd < 0)
        return t->fd;
    if (fstat(t->fd, &t->st) < 0)
        return path_error(e, errno, "look at", path);
    if (t->st.st_size > limit_table[LIMIT_EDIT_FILE].value)
        return too_large(e, path);
    t->path = path;
    if (newfile_follow(w->arena, &t->path, e) < 0)
        return -(int)e->code;
    t->dir = path_open_parent(t->path, &t->name);
    if (t->dir < 0)
        return path_error(e, -t->dir, "open the directory of", t->path);
    return newfile_check(t->dir, t->name, t->path, false, &mode, e);
}

/* With the mode and owner of the old one. */
static int replace(const struct target *t, struct bytes now, struct bytes was, struct stat *ret_st,
                   struct err *e) {
    char temp[NEWFILE_NAME];
    AUTO_CLOSE int fd = newfile_open(t->dir, temp);
    if (fd < 0)
        return path_error(e, -fd, "write in the directory of", t->path);
    int r = fd_write_all(fd, now.p, now.n);
    if (r == 0 && (t->st.st_uid != geteuid() || t->st.st_gid != getegid()) &&
        fchown(fd, t->st.st_uid, t->st.st_gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, t->st.st_mode & 01777) < 0)
        r = -errno;
    r = r < 0 ? path_error(e, -r, "write", t->path) : check_unchanged(t, was, e);
    if (r == 0) {
        r = newfile_place(fd, t->dir, temp, t->name, true);
        if (r < 0)
            r = path_error(e, -r, "put in place", t->path);
        else if (fstat(fd, ret_st) < 0)
            r = path_error(e, errno, "look at", t->path);
    }
    if (r < 0 && temp[0])
        unlinkat(t->dir, temp, 0);
    return r;
}

static int work_edit(struct work *w, struct err *e) {
    char *path;
    struct edit *edits = NULL;
    size_t n = 0;
    struct target t = {.dir = -1, .fd = -1}; /* the child ends soon: nothing to close */
    struct bytes was, now = {0};
    if (path_param(w->params, "path", w->workspace, w->arena, &path, e) < 0 ||
        take_edits(w, &edits, &n, e) < 0)
        return -(int)e->code;
    path_clean(path);
    if (open_target(w, path, &t, e) < 0)
        return -(int)e->code;
    int r = read_all(t.fd, &was);
    if (r < 0)
        return r == -EFBIG ? too_large(e, path) : path_error(e, -r, "read", path);
    now = (struct bytes){malloc(was.n + 1), was.n};
    if (!now.p)
        return no_memory(e);
    memcpy(now.p, was.p, was.n);
    bool crlf = has_crlf(was);
    uint64_t replacements = 0;
    for (size_t i = 0; i < n; i++) {
        if (crlf && (to_crlf(w->arena, &edits[i].old_text, e) < 0 ||
                     to_crlf(w->arena, &edits[i].new_text, e) < 0))
            return -(int)e->code;
        if (apply(&now, &edits[i], i, &replacements, e) < 0)
            return -(int)e->code;
    }
    struct stat st;
    if (replace(&t, now, was, &st, e) < 0)
        return -(int)e->code;
    struct user_names names;
    user_names_load(&names);
    json_put_u64(w->out, "replacements", replacements);
    json_key(w->out, "info");
    info_write(w->out, t.path, &st, -1, NULL, &names);
    return 0;
}

int files_method_edit(struct request *r, struct err *e) {
    return jobs_start(r, work_edit, jobs_answer, NULL, e);
}
