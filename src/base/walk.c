#include "base/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/fd.h"

#define POOL_FIRST 4096

struct record {
    char want;
    unsigned char type;
    char name[]; /* NUL-terminated */
};

/* One directory of the walk, with its names as records. */
struct walk_dir {
    struct walk_dir *up;
    size_t path_n; /* length of the directory's own path in walk.path */
    char *pool;
    size_t n, cap;
    struct record **sorted;
    size_t count, reported;
};

int walk_init(struct walk *w, int root, const char *path) {
    struct stat st;
    snprintf(w->path, sizeof w->path, "%s", strcmp(path, "/") == 0 ? "" : path);
    w->relative = w->path + strlen(w->path) + 1;
    w->names_left = WALK_NAMES_MAX;
    w->root = root;
    if (root < 0)
        return root;
    if (fstat(root, &st) < 0)
        return -errno;
    w->root_dev = st.st_dev;
    return 0;
}

static void walk_leave(struct walk *w) {
    struct walk_dir *d = w->dir;
    w->dir = d->up;
    w->names_left += d->cap;
    free(d->pool);
    free(d->sorted);
    free(d);
}

void walk_done(struct walk *w) {
    while (w->dir)
        walk_leave(w);
    if (w->root >= 0)
        close(w->root);
    w->root = -1;
}

bool walk_is_late(struct walk *w) {
    if (w->deadline_us > 0 && clock_us() > w->deadline_us)
        w->is_cut = true;
    return w->is_cut;
}

/* Returns 1 when the name was added, 0 when names_left is used up. */
static int walk_add_name(struct walk *w, char want, unsigned char type, const char *name) {
    struct walk_dir *d = w->dir;
    size_t name_n = strlen(name) + 1, n = sizeof(struct record) + name_n;
    if (d->n + n > d->cap) {
        size_t cap = MAX((size_t)POOL_FIRST, MAX(2 * d->cap, d->n + n));
        if (cap - d->cap > w->names_left)
            return 0;
        char *pool = realloc(d->pool, cap);
        if (!pool)
            return -ENOMEM;
        w->names_left -= cap - d->cap;
        d->pool = pool;
        d->cap = cap;
    }
    struct record *r = (struct record *)(d->pool + d->n);
    *r = (struct record){.want = want, .type = type};
    memcpy(r->name, name, name_n);
    d->n += n;
    d->count++;
    return 1;
}

/* Orders names as paths: a directory that the walk enters compares as its name followed by "/". */
static int walk_by_path(const void *a, const void *b) {
    const struct record *const *p = a, *const *q = b;
    const char *x = (*p)->name, *y = (*q)->name;
    bool x_enters = (*p)->want == WALK_ENTER, y_enters = (*q)->want == WALK_ENTER;
    for (; *x && *x == *y; x++, y++)
        continue;
    unsigned char cx = *x ? (unsigned char)*x : x_enters ? '/' : 0;
    unsigned char cy = *y ? (unsigned char)*y : y_enters ? '/' : 0;
    return cx < cy ? -1 : cx > cy;
}

static int walk_sort_names(struct walk_dir *d) {
    d->sorted = malloc((d->count + 1) * sizeof *d->sorted);
    if (!d->sorted)
        return -ENOMEM;
    char *at = d->pool;
    for (size_t i = 0; i < d->count; i++) {
        d->sorted[i] = (struct record *)at;
        at = d->sorted[i]->name + strlen(d->sorted[i]->name) + 1;
    }
    qsort(d->sorted, d->count, sizeof *d->sorted, walk_by_path);
    return 0;
}

/* Appends a name to the directory's path. Returns false when it does not fit. */
static bool walk_set_path(struct walk *w, const char *name) {
    size_t n = w->dir->path_n, name_n = strlen(name);
    w->path[n] = '\0';
    if (n + 1 + name_n > WALK_PATH_MAX)
        return false;
    w->path[n] = '/';
    memcpy(w->path + n + 1, name, name_n + 1);
    return true;
}

static unsigned char walk_type_of(int dir, const struct dirent *d) {
    struct stat st;
    if (d->d_type != DT_UNKNOWN)
        return d->d_type;
    return fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : IFTODT(st.st_mode);
}

static int walk_take_name(struct walk *w, int dir, const struct dirent *d) {
    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
        return 1;
    if (w->entries_left == 0 || walk_is_late(w))
        return 0;
    w->entries_left--;
    if (!walk_set_path(w, d->d_name))
        /* the path is too long: walk_next reports the entry as unreadable */
        return walk_add_name(w, WALK_VISIT, DT_UNKNOWN, d->d_name);
    unsigned char type = walk_type_of(dir, d);
    unsigned want = w->on_name(w, type);
    int r = want & WALK_VISIT ? walk_add_name(w, WALK_VISIT, type, d->d_name) : 1;
    if (r == 1 && want & WALK_ENTER && type == DT_DIR)
        r = walk_add_name(w, WALK_ENTER, type, d->d_name);
    return r;
}

/* Takes ownership of fd. */
static int walk_read_names(struct walk *w, int fd) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    int r = 1;
    for (struct dirent *d; r == 1 && (d = readdir(dir));)
        r = walk_take_name(w, fd, d);
    closedir(dir);
    if (r == 0)
        w->is_cut = true;
    return r < 0 ? r : walk_sort_names(w->dir);
}

static bool walk_is_foreign(const struct walk *w, int fd) {
    struct stat st;
    struct statfs fs;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_dev != w->root_dev && fstatfs(fd, &fs) == 0 &&
           (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

static int walk_unreadable(struct walk *w, int error) {
    w->unreadable++;
    w->error = error;
    return WALK_UNREADABLE;
}

/* Enters the directory w->path. Returns 0 to continue, or a walk_event. */
static int walk_enter(struct walk *w) {
    size_t n = strlen(w->path);
    bool is_start = w->path + n < w->relative;
    int fd = fd_open_entry(w->root, is_start ? "" : w->relative, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return is_start ? fd : fd == -ENOENT ? 0 : walk_unreadable(w, -fd);
    bool is_entered = !walk_is_foreign(w, fd);
    struct walk_dir *d = is_entered ? calloc(1, sizeof *d) : NULL;
    if (!d) {
        close(fd);
        return is_entered ? -ENOMEM : 0;
    }
    d->up = w->dir;
    d->path_n = n;
    w->dir = d;
    return walk_read_names(w, fd);
}

int walk_next(struct walk *w) {
    int r = w->has_begun ? 0 : walk_enter(w);
    w->has_begun = true;
    while (r == 0 && w->dir && !walk_is_late(w)) {
        if (w->dir->reported == w->dir->count) {
            walk_leave(w);
            continue;
        }
        const struct record *record = w->dir->sorted[w->dir->reported++];
        w->type = record->type;
        if (!walk_set_path(w, record->name))
            return walk_unreadable(w, ENAMETOOLONG);
        if (record->want == WALK_VISIT)
            return WALK_ENTRY;
        r = walk_enter(w);
    }
    return r;
}
