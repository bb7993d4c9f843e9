/* grep — lines below a path that contain a text or match a regular expression.
 *
 * A regular expression may take for ever on one line, so the search is done by a child of the job's, which
 * writes each match as it finds it to memory both see; at the deadline it is killed, and what it found until
 * then is the answer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/pattern.h"
#include "guest/files/newfile.h"
#include "guest/params.h"
#include "guest/search/scan.h"
#include "guest/search/search.h"

#define MATCHES_DEFAULT 1000

/* Written by the searching child, read by the one that answers. */
struct found {
    _Atomic size_t n; /* bytes of whole matches in `items` */
    _Atomic uint64_t files, binary_files, unreadable;
    bool is_done;
    enum search_end end;
    struct err err; /* of one that could not begin */
    uint8_t items[SEARCH_ITEMS_MAX];
};

struct grep {
    struct walk walk;
    struct scan scan;
    struct pattern *glob; /* NULL: every file */
    uint64_t left;
    struct found *found;
    struct buf items;
    struct json_out out;
};

static void stop_with(struct grep *g, enum search_end end) {
    g->found->end = end;
    g->scan.stop = true;
}

/* As UTF-8: what is not shows as U+FFFD, and so does NUL, which not every reader can carry. A character the
 * cut went through is left out. */
static void put_text(struct json_out *o, const struct scan_line *line) {
    char text[3 * SCAN_TEXT_MAX];
    size_t to = 0;
    for (size_t i = 0; i < line->n;) {
        uint8_t c = (uint8_t)line->text[i];
        size_t n = c == 0 ? 0 : c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
        if (n > line->n - i && line->is_cut)
            break;
        bool good = n > 0 && n <= line->n - i && (n == 1 || str_is_utf8(line->text + i, n));
        memcpy(text + to, good ? line->text + i : "\xef\xbf\xbd", good ? n : 3);
        to += good ? n : 3;
        i += good ? n : 1;
    }
    json_str(o, (struct str){text, to});
}

static void put_near(struct json_out *o, const char *key, const struct scan *s, uint64_t from,
                     uint64_t to) {
    json_key(o, key);
    json_open(o, '[');
    for (uint64_t i = from; i < to; i++) {
        const struct scan_line *line = scan_near(s, i);
        if (line)
            put_text(o, line);
    }
    json_close(o, ']');
}

static void on_match(struct scan *s, const struct scan_line *line) {
    struct grep *g = container_of(s, struct grep, scan);
    struct json_out *o = &g->out;
    if (g->left == 0) {
        stop_with(g, SEARCH_MATCHES);
        return;
    }
    json_open(o, '{');
    path_write(o, "path", g->walk.path);
    json_put_u64(o, "line", line->number);
    json_key(o, "text");
    put_text(o, line);
    if (line->is_cut)
        json_put_bool(o, "text_truncated", true);
    if (s->before > 0)
        put_near(o, "before", s, line->number - MIN(s->before, line->number - 1), line->number);
    if (s->after > 0)
        put_near(o, "after", s, line->number + 1, line->number + s->after + 1);
    json_close(o, '}');
    if (o->error) {
        stop_with(g, SEARCH_SIZE);
        return;
    }
    g->left--;
    g->found->n = buf_len(&g->items);
}

static bool is_late(struct scan *s) {
    return walk_is_late(&container_of(s, struct grep, scan)->walk);
}

static void search_file(struct grep *g, int fd, const struct stat *st) {
    struct found *f = g->found;
    f->files++;
    switch (scan_file(&g->scan, fd, (uint64_t)MAX(st->st_size, 0))) {
    case SCAN_IS_BINARY:
        f->binary_files++;
        break;
    case SCAN_FAILED:
        f->unreadable++;
        break;
    case SCAN_DONE:
        break;
    }
}

static unsigned on_name(struct walk *w, unsigned char type) {
    struct grep *g = container_of(w, struct grep, walk);
    if (type == DT_DIR)
        return !g->glob || pattern_leads_into(g->glob, w->relative) ? WALK_ENTER : WALK_SKIP;
    return type == DT_REG && (!g->glob || pattern_matches(g->glob, w->relative)) ? WALK_VISIT
                                                                                 : WALK_SKIP;
}

/* The entry that the walk is at. */
static void search_entry(struct grep *g) {
    struct stat st;
    AUTO_CLOSE int fd = fd_open_entry(g->walk.root, g->walk.relative, O_RDONLY);
    if (fd < 0) {
        g->found->unreadable += fd != -ENOENT;
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) /* it may have become something else */
        search_file(g, fd, &st);
}

/* The one file that the path names. */
static int search_one(struct grep *g, const char *path, struct err *e) {
    struct stat st;
    AUTO_CLOSE int fd = path_open_regular(path, e);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return path_error(e, errno, "look at", path);
    snprintf(g->walk.path, sizeof g->walk.path, "%s", path);
    if (!g->glob || pattern_matches(g->glob, strrchr(path, '/') + 1))
        search_file(g, fd, &st);
    return 0;
}

static int search(struct grep *g, struct str pattern, const char *path, struct err *e) {
    if (scan_init(&g->scan, pattern, e) < 0)
        return -(int)e->code;
    int r = walk_init(&g->walk, path_open(path, O_PATH | O_DIRECTORY, 0), path);
    if (r == -ENOTDIR)
        return search_one(g, path, e);
    while (r >= 0 && !g->scan.stop && (r = walk_next(&g->walk)) > 0)
        if (r == WALK_ENTRY)
            search_entry(g);
    return r < 0 ? path_error(e, -r, "search", path) : 0;
}

/* The searching child. */
static void search_and_exit(struct grep *g, struct str pattern, const char *path) {
    struct found *f = g->found;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    g->items =
        (struct buf){.block = f->items, .cap = SEARCH_ITEMS_MAX, .max_bytes = SEARCH_ITEMS_MAX};
    json_begin(&g->out, &g->items);
    if (search(g, pattern, path, &f->err) == 0)
        f->err.code = ERR_NONE;
    f->unreadable += g->walk.unreadable;
    if (g->walk.is_cut && f->end == SEARCH_ALL)
        f->end = SEARCH_WORK;
    f->is_done = true;
    _exit(0);
}

/* Until it has ended or the time is over. */
static void await(pid_t pid, uint64_t deadline_us) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        uint64_t now = clock_us();
        if (now >= deadline_us) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
            return;
        }
        struct timespec left = {.tv_sec = (time_t)((deadline_us - now) / 1000000),
                                .tv_nsec = (long)((deadline_us - now) % 1000000 * 1000)};
        sigtimedwait(&child, NULL, &left);
    }
}

static int take_params(struct work *w, struct grep *g, struct str *pattern, char **path,
                       struct err *e) {
    struct str glob = {0};
    int64_t max = MATCHES_DEFAULT, before = 0, after = 0;
    if (path_param(w->params, "path", w->workspace, w->arena, path, e) < 0 ||
        params_str(w->params, "pattern", SCAN_PATTERN_MAX, pattern, e) < 0 ||
        params_bool(w->params, "regex", &g->scan.is_regex, e) < 0 ||
        params_bool(w->params, "ignore_case", &g->scan.ignore_case, e) < 0 ||
        params_str(w->params, "glob", PATTERN_MAX, &glob, e) < 0 ||
        params_int(w->params, "max_matches", 1, SEARCH_MATCHES_MAX, &max, e) < 0 ||
        params_int(w->params, "before_lines", 0, SCAN_CONTEXT_MAX, &before, e) < 0 ||
        params_int(w->params, "after_lines", 0, SCAN_CONTEXT_MAX, &after, e) < 0)
        return -(int)e->code;
    if (!pattern->p)
        return params_missing("pattern", e);
    if (glob.n > 0 && pattern_new(w->arena, glob, PATTERN_VISIBLE, "glob", &g->glob, e) < 0)
        return -(int)e->code;
    path_clean(*path);
    g->left = (uint64_t)max;
    g->scan.before = (uint64_t)before;
    g->scan.after = (uint64_t)after;
    g->scan.on_match = on_match;
    g->scan.is_late = is_late;
    g->walk.on_name = on_name;
    return 0;
}

static int work_grep(struct work *w, struct err *e) {
    struct str pattern = {0};
    char *path;
    struct grep *g = calloc(1, sizeof *g);
    struct found *f =
        mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!g || f == MAP_FAILED)
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory to search");
    if (take_params(w, g, &pattern, &path, e) < 0)
        return -(int)e->code;
    g->found = f;
    search_bound(&g->walk, LIMIT_GREP_TIME);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "start a search");
    if (pid == 0)
        search_and_exit(g, pattern, path);
    await(pid, g->walk.deadline_us);
    bool is_late = walk_is_late(&g->walk);
    if (!f->is_done && !is_late)
        return err_set(e, ERR_INTERNAL, "the search was cut off");
    if (f->is_done && f->err.code != ERR_NONE) {
        *e = f->err;
        return -(int)e->code;
    }
    struct buf items = {.block = f->items, .tail = f->n, .cap = f->n, .max_bytes = f->n};
    search_put(w->out, &items, f->is_done ? f->end : SEARCH_WORK);
    json_put_u64(w->out, "files", f->files);
    json_put_u64(w->out, "binary_files", f->binary_files);
    json_put_u64(w->out, "unreadable", f->unreadable);
    return 0;
}

int search_method_grep(struct request *r, struct err *e) {
    return jobs_start_search(r, work_grep, e);
}
