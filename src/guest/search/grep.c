/* grep — the request that finds the lines below a path that contain a text or match a regular expression.
 *
 * A regular expression may take forever on one line. A child of the job therefore searches, and writes each
 * match to memory that both share. At the deadline the job kills the child and replies with the matches so
 * far. */
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
#include "guest/path.h"
#include "guest/search/scan.h"
#include "guest/search/search.h"

#define MATCHES_DEFAULT 1000

/* Shared memory: the child writes, the job reads. */
struct grep_found {
    _Atomic size_t n; /* bytes of complete matches in `items` */
    _Atomic uint64_t files, binary_files, unreadable;
    bool is_done;
    enum search_end end;
    struct err err; /* the error of a search that could not start */
    uint8_t items[SEARCH_ITEMS_MAX];
};

struct grep {
    struct walk walk;
    struct scan scan;
    struct pattern *glob; /* NULL: every file */
    uint64_t left;
    struct grep_found *found;
    struct buf items;
    struct json_out out;
};

static void grep_stop(struct grep *g, enum search_end end) {
    g->found->end = end;
    g->scan.stop = true;
}

/* Writes the text as UTF-8. U+FFFD replaces bytes that are not UTF-8, and NUL, which not every JSON reader
 * accepts. A character that was cut in the middle is left out. */
static void grep_put_text(struct json_out *o, const struct scan_line *line) {
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

static void grep_put_context(struct json_out *o, const char *key, const struct scan *s,
                             uint64_t from, uint64_t to) {
    json_key(o, key);
    json_open(o, '[');
    for (uint64_t i = from; i < to; i++) {
        const struct scan_line *line = scan_near(s, i);
        if (line)
            grep_put_text(o, line);
    }
    json_close(o, ']');
}

static void grep_on_match(struct scan *s, const struct scan_line *line) {
    struct grep *g = container_of(s, struct grep, scan);
    struct json_out *o = &g->out;
    if (g->left == 0) {
        grep_stop(g, SEARCH_MATCHES);
        return;
    }
    json_open(o, '{');
    path_write(o, "path", g->walk.path);
    json_put_u64(o, "line", line->number);
    json_key(o, "text");
    grep_put_text(o, line);
    if (line->is_cut)
        json_put_bool(o, "text_truncated", true);
    if (s->before > 0)
        grep_put_context(o, "before", s, line->number - MIN(s->before, line->number - 1),
                         line->number);
    if (s->after > 0)
        grep_put_context(o, "after", s, line->number + 1, line->number + s->after + 1);
    json_close(o, '}');
    if (o->error) {
        grep_stop(g, SEARCH_SIZE);
        return;
    }
    g->left--;
    g->found->n = buf_len(&g->items);
}

static bool grep_is_late(struct scan *s) {
    return walk_is_late(&container_of(s, struct grep, scan)->walk);
}

static void grep_search_file(struct grep *g, int fd, const struct stat *st) {
    struct grep_found *f = g->found;
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

static unsigned grep_on_name(struct walk *w, unsigned char type) {
    struct grep *g = container_of(w, struct grep, walk);
    if (type == DT_DIR)
        return !g->glob || pattern_leads_into(g->glob, w->relative) ? WALK_ENTER : WALK_SKIP;
    return type == DT_REG && (!g->glob || pattern_matches(g->glob, w->relative)) ? WALK_VISIT
                                                                                 : WALK_SKIP;
}

/* Searches the current entry of the walk. */
static void grep_search_entry(struct grep *g) {
    struct stat st;
    AUTO_CLOSE int fd = fd_open_entry(g->walk.root, g->walk.relative, O_RDONLY);
    if (fd < 0) {
        g->found->unreadable += fd != -ENOENT;
        return;
    }
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) /* the name may lead to another file now */
        grep_search_file(g, fd, &st);
}

/* Searches the file that the path of the request leads to. */
static int grep_search_one(struct grep *g, const char *path, struct err *e) {
    struct stat st;
    AUTO_CLOSE int fd = path_open_regular(path, e);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return path_error(e, errno, "stat", path);
    snprintf(g->walk.path, sizeof g->walk.path, "%s", path);
    if (!g->glob || pattern_matches(g->glob, strrchr(path, '/') + 1))
        grep_search_file(g, fd, &st);
    return 0;
}

static int grep_search(struct grep *g, struct str pattern, const char *path, struct err *e) {
    if (scan_init(&g->scan, pattern, e) < 0)
        return -(int)e->code;
    int r = walk_init(&g->walk, path_open(path, O_PATH | O_DIRECTORY, 0), path);
    if (r == -ENOTDIR)
        return grep_search_one(g, path, e);
    while (r >= 0 && !g->scan.stop && (r = walk_next(&g->walk)) > 0)
        if (r == WALK_ENTRY)
            grep_search_entry(g);
    return r < 0 ? path_error(e, -r, "search", path) : 0;
}

/* The main function of the child. */
static void grep_child_main(struct grep *g, struct str pattern, const char *path) {
    struct grep_found *f = g->found;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    g->items =
        (struct buf){.block = f->items, .cap = SEARCH_ITEMS_MAX, .max_bytes = SEARCH_ITEMS_MAX};
    json_begin(&g->out, &g->items);
    if (grep_search(g, pattern, path, &f->err) == 0)
        f->err.code = ERR_NONE;
    f->unreadable += g->walk.unreadable;
    if (g->walk.is_cut && f->end == SEARCH_ALL)
        f->end = SEARCH_WORK;
    f->is_done = true;
    _exit(0);
}

/* Waits until the child exits, and kills it at the deadline. */
static void grep_wait_child(pid_t pid, uint64_t deadline_us) {
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

static int grep_read_params(struct work *w, struct grep *g, struct str *pattern, char **path,
                            struct err *e) {
    struct str glob = {0};
    int64_t max = MATCHES_DEFAULT, before = 0, after = 0;
    if (work_path(w, "path", path, e) < 0 ||
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
    g->left = (uint64_t)max;
    g->scan.before = (uint64_t)before;
    g->scan.after = (uint64_t)after;
    g->scan.on_match = grep_on_match;
    g->scan.is_late = grep_is_late;
    g->walk.on_name = grep_on_name;
    return 0;
}

static int grep_work(struct work *w, struct err *e) {
    struct str pattern = {0};
    char *path;
    struct grep *g = calloc(1, sizeof *g);
    struct grep_found *f =
        mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!g || f == MAP_FAILED)
        return err_set(e, ERR_OUT_OF_MEMORY, "grep: out of memory");
    if (grep_read_params(w, g, &pattern, &path, e) < 0)
        return -(int)e->code;
    g->found = f;
    search_bound(&g->walk, LIMIT_GREP_TIME);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(e, ERR_LIMIT_REACHED, errno, "start the search process");
    if (pid == 0)
        grep_child_main(g, pattern, path);
    grep_wait_child(pid, g->walk.deadline_us);
    bool is_late = walk_is_late(&g->walk);
    if (!f->is_done && !is_late)
        return err_set(e, ERR_INTERNAL, "the process that searched was killed");
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

int grep_method(struct request *r, struct err *e) {
    return jobs_start_search(r, grep_work, e);
}
