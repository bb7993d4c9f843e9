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

/* The names of one directory, each a record: what is wanted, its type, the text and NUL. */
struct names {
    char *pool;
    size_t n, cap;
    char **sorted;
    size_t count;
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

void walk_done(struct walk *w) {
    if (w->root >= 0)
        close(w->root);
    w->root = -1;
}

bool walk_is_late(struct walk *w) {
    if (w->deadline_us > 0 && clock_us() > w->deadline_us)
        w->is_cut = true;
    return w->is_cut;
}

/* 1: kept; 0: the memory for names is used up. */
static int names_add(struct walk *w, struct names *names, char want, unsigned char type,
                     const char *name) {
    size_t n = strlen(name) + 3;
    if (names->n + n > names->cap) {
        size_t cap = MAX((size_t)POOL_FIRST, MAX(2 * names->cap, names->n + n));
        if (cap - names->cap > w->names_left)
            return 0;
        char *pool = realloc(names->pool, cap);
        if (!pool)
            return -ENOMEM;
        w->names_left -= cap - names->cap;
        names->pool = pool;
        names->cap = cap;
    }
    names->pool[names->n] = want;
    names->pool[names->n + 1] = (char)type;
    memcpy(names->pool + names->n + 2, name, n - 2);
    names->n += n;
    names->count++;
    return 1;
}

/* A directory to be entered sorts as its name and "/". */
static int by_path(const void *a, const void *b) {
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    bool x_enters = x[0] == WALK_ENTER, y_enters = y[0] == WALK_ENTER;
    for (x += 2, y += 2; *x && *x == *y; x++, y++)
        continue;
    unsigned char cx = *x ? (unsigned char)*x : x_enters ? '/' : 0;
    unsigned char cy = *y ? (unsigned char)*y : y_enters ? '/' : 0;
    return cx < cy ? -1 : cx > cy;
}

static int names_sort(struct names *names) {
    names->sorted = malloc((names->count + 1) * sizeof *names->sorted);
    if (!names->sorted)
        return -ENOMEM;
    char *at = names->pool;
    for (size_t i = 0; i < names->count; i++) {
        names->sorted[i] = at;
        at += strlen(at + 2) + 3;
    }
    qsort(names->sorted, names->count, sizeof *names->sorted, by_path);
    return 0;
}

static void names_done(struct walk *w, struct names *names) {
    w->names_left += names->cap;
    free(names->pool);
    free(names->sorted);
}

/* Puts a name behind the directory's path of n bytes; false when it does not fit. */
static bool set_path(struct walk *w, size_t n, const char *name) {
    size_t name_n = strlen(name);
    if (n + 1 + name_n > WALK_PATH_MAX)
        return false;
    w->path[n] = '/';
    memcpy(w->path + n + 1, name, name_n + 1);
    return true;
}

static unsigned char type_of(int dir, const struct dirent *d) {
    struct stat st;
    if (d->d_type != DT_UNKNOWN)
        return d->d_type;
    return fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : IFTODT(st.st_mode);
}

static int take_name(struct walk *w, struct names *names, int dir, const struct dirent *d,
                     size_t n) {
    if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
        return 1;
    if (w->entries_left == 0 || walk_is_late(w))
        return 0;
    w->entries_left--;
    if (!set_path(w, n, d->d_name)) {
        w->unreadable++;
        return 1;
    }
    unsigned char type = type_of(dir, d);
    unsigned want = w->on_name(w, type);
    int r = want & WALK_VISIT ? names_add(w, names, WALK_VISIT, type, d->d_name) : 1;
    if (r == 1 && want & WALK_ENTER && type == DT_DIR)
        r = names_add(w, names, WALK_ENTER, type, d->d_name);
    return r;
}

/* Takes fd. */
static int read_names(struct walk *w, struct names *names, int fd, size_t n) {
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    int r = 1;
    for (struct dirent *d; r == 1 && (d = readdir(dir));)
        r = take_name(w, names, fd, d, n);
    closedir(dir);
    if (r == 0)
        w->is_cut = true;
    return r < 0 ? r : names_sort(names);
}

static bool is_foreign(const struct walk *w, int fd) {
    struct stat st;
    struct statfs fs;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_dev != w->root_dev && fstatfs(fd, &fs) == 0 &&
           (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

/* `n`: the length of the directory's path. */
static int walk_dir(struct walk *w, size_t n) {
    struct names names = {0};
    w->path[n] = '\0';
    bool is_start = w->path + n < w->relative;
    int fd = fd_open_entry(w->root, is_start ? "" : w->relative, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        w->unreadable += fd != -ENOENT && !is_start;
        return is_start ? fd : 0;
    }
    if (is_foreign(w, fd)) {
        close(fd);
        return 0;
    }
    int r = read_names(w, &names, fd, n);
    for (size_t i = 0; r == 0 && i < names.count && !w->stop && !walk_is_late(w); i++) {
        const char *record = names.sorted[i];
        set_path(w, n, record + 2);
        if (record[0] == WALK_ENTER)
            r = walk_dir(w, strlen(w->path));
        else
            w->on_entry(w, (unsigned char)record[1]);
    }
    names_done(w, &names);
    return r;
}

int walk_run(struct walk *w) {
    return walk_dir(w, strlen(w->path));
}
