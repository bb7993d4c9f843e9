/* glob — the request that lists the paths that match a pattern. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/pattern.h"
#include "guest/params.h"
#include "guest/path.h"
#include "guest/files/info.h"
#include "guest/search/search.h"

struct glob {
    struct walk walk;
    struct pattern *pattern;
    bool all_types;
    size_t left;
    struct user_names names;
    struct buf items;
    struct json_out out;
    enum search_end end;
};

static unsigned glob_on_name(struct walk *w, unsigned char type) {
    struct glob *g = container_of(w, struct glob, walk);
    unsigned want = WALK_SKIP;
    if ((g->all_types || type == DT_REG) && pattern_matches(g->pattern, w->relative))
        want |= WALK_VISIT;
    if (type == DT_DIR && pattern_leads_into(g->pattern, w->relative))
        want |= WALK_ENTER;
    return want;
}

/* Adds the current entry of the walk. */
static void glob_put_match(struct glob *g) {
    const struct walk *w = &g->walk;
    struct stat st;
    AUTO_CLOSE int fd = fd_open_entry(w->root, w->relative, O_PATH);
    if (fd < 0 || fstat(fd, &st) < 0 || (!g->all_types && !S_ISREG(st.st_mode)))
        return; /* the entry is gone, or is another file now */
    if (g->left == 0) {
        g->end = SEARCH_MATCHES;
        return;
    }
    struct json_out before = g->out;
    size_t n = buf_len(&g->items);
    info_write(&g->out, w->path, &st, fd, "", &g->names);
    if (g->out.error) {
        g->out = before;
        buf_truncate(&g->items, n);
        g->end = SEARCH_SIZE;
        return;
    }
    g->left--;
}

static int glob_work(struct work *w, struct err *e) {
    char *path;
    struct str text = {0};
    int64_t max = SEARCH_MATCHES_MAX;
    struct glob *g = calloc(1, sizeof *g);
    if (!g)
        return err_set(e, ERR_OUT_OF_MEMORY, "glob: out of memory");
    if (work_path(w, "path", &path, e) < 0 ||
        params_str(w->params, "pattern", PATTERN_MAX, &text, e) < 0 ||
        params_bool(w->params, "all_types", &g->all_types, e) < 0 ||
        params_int(w->params, "max_matches", 1, SEARCH_MATCHES_MAX, &max, e) < 0)
        return -(int)e->code;
    if (!text.p)
        return params_missing("pattern", e);
    if (pattern_new(w->arena, text, PATTERN_VISIBLE, "pattern", &g->pattern, e) < 0)
        return -(int)e->code;
    g->left = (size_t)max;
    g->walk.on_name = glob_on_name;
    buf_init(&g->items, SEARCH_ITEMS_MAX);
    json_begin(&g->out, &g->items);
    user_names_load(&g->names);
    search_bound(&g->walk, LIMIT_GLOB_TIME);
    int r = walk_init(&g->walk, path_open(path, O_PATH | O_DIRECTORY, 0), path);
    while (r >= 0 && g->end == SEARCH_ALL && (r = walk_next(&g->walk)) > 0)
        if (r == WALK_ENTRY)
            glob_put_match(g);
    if (r < 0)
        return path_error(e, -r, "search", path);
    if (g->walk.is_cut && g->end == SEARCH_ALL)
        g->end = SEARCH_WORK;
    search_put(w->out, &g->items, g->end);
    json_put_u64(w->out, "unreadable", g->walk.unreadable);
    return 0;
}

int glob_method(struct request *r, struct err *e) {
    return jobs_start_search(r, glob_work, e);
}
