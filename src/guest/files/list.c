/* list — the request that lists one page of a directory tree, in byte order of the names, each directory before
 * its entries.
 *
 * The page token is the path of the last entry, so the guest keeps nothing between pages. From a directory with
 * a million names it keeps only the smallest ones that fit the page: the page bounds the memory. Symlinks are
 * listed and, below the start, never followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "guest/files/files.h"
#include "guest/files/info.h"
#include "guest/link.h"
#include "guest/params.h"
#include "guest/path.h"

#define DEPTH_MAX 64
#define ENTRIES_DEFAULT 1000
#define ENTRIES_MAX 10000
#define UNREADABLE_MAX 100
#define UNREADABLE_BYTES 65536
#define ENTRY_MAX 32768 /* bytes of an entry with the longest path and target, encoded */

struct listing {
    struct work *work;
    struct user_names names;
    char path[2 * PATH_LENGTH_MAX + 2]; /* path of the current directory or entry */
    size_t root_n;                      /* length of the path that the list starts at */
    size_t left;                        /* entries that still fit the page */
    bool is_full;
    char last[2 * PATH_LENGTH_MAX + 2]; /* the last entry written, relative to the start */
    struct buf unreadable;
    struct json_out unreadable_out;
    size_t n_unreadable;
};

/* A heap of the `max` smallest names seen so far, with the largest on top. */
struct list_heap {
    char **of;
    size_t n;
    size_t max;
};

static void list_heap_swap(char **a, char **b) {
    char *t = *a;
    *a = *b;
    *b = t;
}

static void list_heap_sift_down(struct list_heap *s) {
    for (size_t i = 0;;) {
        size_t big = i, left = 2 * i + 1, right = left + 1;
        if (left < s->n && strcmp(s->of[left], s->of[big]) > 0)
            big = left;
        if (right < s->n && strcmp(s->of[right], s->of[big]) > 0)
            big = right;
        if (big == i)
            return;
        list_heap_swap(&s->of[i], &s->of[big]);
        i = big;
    }
}

static int list_heap_add(struct list_heap *s, const char *name) {
    bool full = s->n == s->max;
    if (full && strcmp(name, s->of[0]) >= 0)
        return 0;
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    if (full) {
        free(s->of[0]);
        s->of[0] = copy;
        list_heap_sift_down(s);
        return 0;
    }
    size_t i = s->n++;
    s->of[i] = copy;
    for (; i > 0 && strcmp(s->of[(i - 1) / 2], s->of[i]) < 0; i = (i - 1) / 2)
        list_heap_swap(&s->of[i], &s->of[(i - 1) / 2]);
    return 0;
}

static int list_compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_read_names(int fd, const char *from, struct list_heap *s) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int error = errno;
        close(fd);
        return -error;
    }
    int r = 0;
    s->of = malloc(s->max * sizeof *s->of);
    if (!s->of)
        r = -ENOMEM;
    for (struct dirent *d; r == 0 && (d = readdir(dir));) {
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
            continue;
        if (!from || strcmp(d->d_name, from) >= 0)
            r = list_heap_add(s, d->d_name);
    }
    closedir(dir);
    if (r == 0)
        qsort(s->of, s->n, sizeof *s->of, list_compare_names);
    return r;
}

static void list_put_unreadable(struct listing *l) {
    if (l->n_unreadable < UNREADABLE_MAX && buf_available(&l->unreadable) > ENTRY_MAX &&
        str_is_utf8(l->path, strlen(l->path))) {
        json_str(&l->unreadable_out, str_of(l->path));
        l->n_unreadable++;
    }
}

static const char *list_relative(const struct listing *l) {
    const char *rest = l->path + l->root_n;
    return rest + (*rest == '/');
}

static bool list_put_entry(struct listing *l, int dir, const char *name, const struct stat *st) {
    if (l->left == 0 ||
        buf_len(l->work->out->to) + buf_len(&l->unreadable) > LINK_MESSAGE_MAX - 3 * ENTRY_MAX) {
        l->is_full = true;
        return false;
    }
    l->left--;
    info_write(l->work->out, l->path, st, dir, name, &l->names);
    snprintf(l->last, sizeof l->last, "%s", list_relative(l));
    return true;
}

/* Lists a directory and takes ownership of fd. `after` is the last entry of the previous page,
 * relative to this directory; NULL: list from the start. */
static int list_dir(struct listing *l, int fd, int depth, const char *after) {
    char from[PATH_NAME_MAX + 1];
    size_t first_n = after ? strcspn(after, "/") : 0;
    const char *below = after && after[first_n] == '/' ? after + first_n + 1 : NULL;
    if (after)
        snprintf(from, sizeof from, "%.*s", (int)MIN(first_n, sizeof from - 1), after);
    struct list_heap s = {.max = l->left + 2};
    AUTO_CLOSE int dir = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (dir < 0) {
        close(fd);
        return -EMFILE;
    }
    int r = list_read_names(fd, after ? from : NULL, &s);
    size_t n = strlen(l->path);
    for (size_t i = 0; r == 0 && !l->is_full && i < s.n; i++) {
        struct stat st;
        bool was_last = after && strcmp(s.of[i], from) == 0;
        size_t name_n = strlen(s.of[i]);
        if (n + 1 + name_n > PATH_LENGTH_MAX || fstatat(dir, s.of[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* the entry is gone, or its path is too long to report */
        snprintf(l->path + n, sizeof l->path - n, "%s%s", n > 1 ? "/" : "", s.of[i]);
        if ((was_last || list_put_entry(l, dir, s.of[i], &st)) && S_ISDIR(st.st_mode) &&
            depth > 1) {
            int sub = openat(dir, s.of[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (sub < 0)
                list_put_unreadable(l);
            else
                r = list_dir(l, sub, depth - 1, was_last ? below : NULL);
        }
        l->path[n] = '\0';
    }
    for (size_t i = 0; i < s.n; i++)
        free(s.of[i]);
    free(s.of);
    return r;
}

static int list_read_token(struct work *w, char **ret_after, struct err *e) {
    struct str token;
    if (params_base64(w->params, "page_token", w->arena, PATH_LENGTH_MAX, &token, e) < 0)
        return -(int)e->code;
    *ret_after = token.n > 0 ? arena_copy(w->arena, token.p, token.n) : NULL;
    if (token.n > 0 && (!*ret_after || strlen(*ret_after) != token.n || token.p[0] == '/'))
        return err_field(e, "page_token", "must be a token of an earlier reply");
    return 0;
}

static int list_work(struct work *w, struct err *e) {
    char *path, *after = NULL;
    int64_t depth = 1, max = ENTRIES_DEFAULT;
    if (work_path(w, "path", &path, e) < 0 ||
        params_int(w->params, "depth", 1, DEPTH_MAX, &depth, e) < 0 ||
        params_int(w->params, "max_entries", 1, ENTRIES_MAX, &max, e) < 0 ||
        list_read_token(w, &after, e) < 0)
        return -(int)e->code;
    int fd = path_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return path_error(e, -fd, "list", path);
    struct listing *l = calloc(1, sizeof *l);
    if (!l)
        return err_set(e, ERR_OUT_OF_MEMORY, "list %.150s: out of memory", path);
    l->work = w;
    l->left = (size_t)max;
    user_names_load(&l->names);
    snprintf(l->path, sizeof l->path, "%s", path);
    l->root_n = strlen(path);
    buf_init(&l->unreadable, UNREADABLE_BYTES);
    json_begin(&l->unreadable_out, &l->unreadable);
    json_open(&l->unreadable_out, '[');
    json_key(w->out, "entries");
    json_open(w->out, '[');
    int r = list_dir(l, fd, (int)depth, after);
    json_close(w->out, ']');
    json_close(&l->unreadable_out, ']');
    if (r < 0)
        return path_error(e, -r, "list", path);
    json_key(w->out, "next_page_token");
    json_base64(w->out, l->last, l->is_full ? strlen(l->last) : 0);
    if (l->n_unreadable > 0 && json_end(&l->unreadable_out) == 0) {
        json_key(w->out, "unreadable");
        json_raw(w->out,
                 (struct str){(const char *)buf_data(&l->unreadable), buf_len(&l->unreadable)});
    }
    return 0;
}

int list_method(struct request *r, struct err *e) {
    return jobs_start(r, list_work, jobs_reply, NULL, e);
}
