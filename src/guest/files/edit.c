/* edit — the request that replaces exact bytes in a file: all edits or none, atomically.
 *
 * The new contents are built in memory and replace the file, with its mode and owner, unless the file has
 * changed since it was read.
 * Bounds: the file, and the result of each edit, at most edit.file bytes. */
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

struct edit_bytes {
    char *p;
    size_t n;
};

struct edit_target {
    char *path; /* path of the file; symlinks at its end are resolved */
    int dir;
    const char *name;
    int fd;
    struct stat st;
};

static int edit_no_memory(struct err *e) {
    return err_set(e, ERR_OUT_OF_MEMORY, "edit: out of memory");
}

static int edit_too_large(struct err *e, const char *what) {
    int64_t max = limit_table[LIMIT_EDIT_FILE].value;
    return err_limit(e, ERR_FILE_TOO_LARGE, LIMIT_EDIT_FILE, max,
                     "%.150s is larger than %lld bytes", what, (long long)max);
}

static int edit_read_params(struct work *w, struct edit **ret, size_t *ret_n, struct err *e) {
    const struct json *list;
    size_t max_text = (size_t)limit_table[LIMIT_EDIT_TEXT].value, n = 0, total = 0;
    if (params_node(w->params, "edits", JSON_ARRAY, &list, e) < 0)
        return -(int)e->code;
    if (!list)
        return params_missing("edits", e);
    if (list->items.count < 1 || list->items.count > (size_t)limit_table[LIMIT_EDIT_COUNT].value)
        return err_field(e, "edits", "must have 1 to %lld entries, got %zu",
                         (long long)limit_table[LIMIT_EDIT_COUNT].value, list->items.count);
    struct edit *edits = arena_zalloc(w->arena, list->items.count * sizeof *edits);
    if (!edits)
        return edit_no_memory(e);
    JSON_FOR_EACH(it, list) {
        struct edit *edit = &edits[n++];
        if (it->type != JSON_OBJECT)
            return err_field(e, "edits", "entry %zu must be an object", n - 1);
        if (params_base64(it, "old_b64", w->arena, max_text, &edit->old_text, e) < 0 ||
            params_base64(it, "new_b64", w->arena, max_text, &edit->new_text, e) < 0 ||
            params_bool(it, "replace_all", &edit->replace_all, e) < 0)
            return -(int)e->code;
        if (edit->old_text.n == 0)
            return err_field(e, "edits", "old_b64 of entry %zu must not be empty", n - 1);
        total += edit->old_text.n + edit->new_text.n;
    }
    if (total > max_text)
        return err_field(e, "edits", "texts must be at most %zu bytes together, got %zu", max_text,
                         total);
    *ret = edits;
    *ret_n = n;
    return 0;
}

/* Reads the whole file. Fails with -EFBIG when the file is larger than the limit, else with
 * -errno. */
static int edit_read_file(int fd, struct edit_bytes *ret) {
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
    *ret = (struct edit_bytes){p, n};
    return n > max ? -EFBIG : 0;
}

/* Returns whether the file has line ends and all of them are CRLF. */
static bool edit_has_crlf(struct edit_bytes b) {
    const char *end = b.p + b.n, *nl = NULL;
    bool found = false;
    for (const char *p = b.p; (nl = memchr(p, '\n', (size_t)(end - p))); p = nl + 1) {
        if (nl == b.p || nl[-1] != '\r')
            return false;
        found = true;
    }
    return found;
}

/* Turns each LF that is not part of a CRLF into CRLF. */
static int edit_to_crlf(struct arena *a, struct str *text, struct err *e) {
    char *p = arena_alloc(a, 2 * text->n + 1);
    size_t n = 0;
    if (!p)
        return edit_no_memory(e);
    for (size_t i = 0; i < text->n; i++) {
        if (text->p[i] == '\n' && (i == 0 || text->p[i - 1] != '\r'))
            p[n++] = '\r';
        p[n++] = text->p[i];
    }
    *text = (struct str){p, n};
    return 0;
}

static uint64_t edit_count(struct edit_bytes b, struct str what) {
    const char *p = b.p, *end = b.p + b.n;
    uint64_t n = 0;
    for (; (p = memmem(p, (size_t)(end - p), what.p, what.n)); p += what.n)
        n++;
    return n;
}

static int edit_apply(struct edit_bytes *b, const struct edit *edit, size_t i,
                      uint64_t *replacements, struct err *e) {
    uint64_t n = edit_count(*b, edit->old_text);
    if (n == 0)
        return err_set(e, ERR_EDIT_NO_MATCH, "edits[%zu]: the text is not in the file", i);
    if (n > 1 && !edit->replace_all)
        return err_set(e, ERR_EDIT_NOT_UNIQUE, "edits[%zu]: the text is in the file %llu times", i,
                       (unsigned long long)n);
    uint64_t size = b->n - n * edit->old_text.n + n * edit->new_text.n;
    if (size > (uint64_t)limit_table[LIMIT_EDIT_FILE].value)
        return edit_too_large(e, "the result");
    char *out = malloc(size + 1), *to = out;
    if (!out)
        return edit_no_memory(e);
    const char *p = b->p, *end = b->p + b->n;
    for (const char *hit; (hit = memmem(p, (size_t)(end - p), edit->old_text.p, edit->old_text.n));
         p = hit + edit->old_text.n) {
        to = mempcpy(to, p, (size_t)(hit - p));
        to = mempcpy(to, edit->new_text.p, edit->new_text.n);
    }
    memcpy(to, p, (size_t)(end - p));
    free(b->p);
    *b = (struct edit_bytes){out, size};
    *replacements += n;
    return 0;
}

/* Applies all edits in order. If the file has CRLF line ends, converts those of the edits to CRLF
 * first. */
static int edit_apply_all(struct work *w, struct edit *edits, size_t n, struct edit_bytes was,
                          struct edit_bytes *ret_now, uint64_t *replacements, struct err *e) {
    bool crlf = edit_has_crlf(was);
    *ret_now = (struct edit_bytes){malloc(was.n + 1), was.n};
    if (!ret_now->p)
        return edit_no_memory(e);
    memcpy(ret_now->p, was.p, was.n);
    for (size_t i = 0; i < n; i++) {
        if (crlf && (edit_to_crlf(w->arena, &edits[i].old_text, e) < 0 ||
                     edit_to_crlf(w->arena, &edits[i].new_text, e) < 0))
            return -(int)e->code;
        if (edit_apply(ret_now, &edits[i], i, replacements, e) < 0)
            return -(int)e->code;
    }
    return 0;
}

static bool edit_is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mode == b->st_mode && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Fails with FILE_CHANGED unless the path still leads to the same file with the same bytes. */
static int edit_check_unchanged(const struct edit_target *t, struct edit_bytes was, struct err *e) {
    struct stat st;
    struct edit_bytes now = {0};
    bool same = fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                edit_is_same(&st, &t->st) && edit_read_file(t->fd, &now) == 0 && now.n == was.n &&
                memcmp(now.p, was.p, now.n) == 0;
    free(now.p);
    return same ? 0 : err_set(e, ERR_FILE_CHANGED, "%.150s changed during the edit", t->path);
}

static int edit_open_target(struct work *w, char *path, struct edit_target *t, struct err *e) {
    mode_t mode;
    t->fd = path_open_regular(path, e);
    if (t->fd < 0)
        return t->fd;
    if (fstat(t->fd, &t->st) < 0)
        return path_error(e, errno, "stat", path);
    if (t->st.st_size > limit_table[LIMIT_EDIT_FILE].value)
        return edit_too_large(e, path);
    t->path = path;
    if (newfile_follow(w->arena, &t->path, e) < 0)
        return -(int)e->code;
    t->dir = path_open_parent(t->path, &t->name);
    if (t->dir < 0)
        return path_error(e, -t->dir, "open the parent of", t->path);
    return newfile_check(t->dir, t->name, t->path, false, &mode, e);
}

/* Replaces the file; the new one gets the mode and owner of the old one. */
static int edit_replace(const struct edit_target *t, struct edit_bytes now, struct edit_bytes was,
                        struct stat *ret_st, struct err *e) {
    char temp[NEWFILE_NAME];
    AUTO_CLOSE int fd = newfile_open(t->dir, temp);
    if (fd < 0)
        return path_error(e, -fd, "create a file in the parent of", t->path);
    int r = fd_write_all(fd, now.p, now.n);
    if (r == 0 && (t->st.st_uid != geteuid() || t->st.st_gid != getegid()) &&
        fchown(fd, t->st.st_uid, t->st.st_gid) < 0)
        r = -errno;
    if (r == 0 && fchmod(fd, t->st.st_mode & 01777) < 0)
        r = -errno;
    r = r < 0 ? path_error(e, -r, "write", t->path) : edit_check_unchanged(t, was, e);
    if (r == 0) {
        r = newfile_place(fd, t->dir, temp, t->name, true);
        if (r < 0)
            r = path_error(e, -r, "replace", t->path);
        else if (fstat(fd, ret_st) < 0)
            r = path_error(e, errno, "stat", t->path);
    }
    if (r < 0 && temp[0])
        unlinkat(t->dir, temp, 0);
    return r;
}

static int edit_work(struct work *w, struct err *e) {
    char *path;
    struct edit *edits = NULL;
    size_t n = 0;
    struct edit_target t = {.dir = -1,
                            .fd = -1}; /* nothing closes these, because the child exits soon */
    struct edit_bytes was, now = {0};
    uint64_t replacements = 0;
    if (work_path(w, "path", &path, e) < 0 || edit_read_params(w, &edits, &n, e) < 0)
        return -(int)e->code;
    if (edit_open_target(w, path, &t, e) < 0)
        return -(int)e->code;
    int r = edit_read_file(t.fd, &was);
    if (r < 0)
        return r == -EFBIG ? edit_too_large(e, path) : path_error(e, -r, "read", path);
    struct stat st;
    if (edit_apply_all(w, edits, n, was, &now, &replacements, e) < 0 ||
        edit_replace(&t, now, was, &st, e) < 0)
        return -(int)e->code;
    json_put_u64(w->out, "replacements", replacements);
    info_put(w->out, t.path, &st, -1);
    return 0;
}

int edit_method(struct request *r, struct err *e) {
    return jobs_start(r, edit_work, jobs_reply, NULL, e);
}
