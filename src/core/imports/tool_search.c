#include "core/imports/tool_search.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tool_not_found(const struct tool *t, const char *why, struct err *e) {
    char searched[160] = "";
    size_t n = 0;
    for (size_t i = 0; i < TOOL_HOMES_MAX && t->homes[i].trees[0] && n < sizeof searched; i++)
        n += (size_t)snprintf(searched + n, sizeof searched - n, ", %s", t->homes[i].trees[0]);
    return err_set(e, ERR_UNSUPPORTED,
                   "%s not found for this caller%s%s; searched /usr/local/bin, /usr/bin%s", t->name,
                   why ? ": " : "", why ? why : "", searched);
}

static void tool_search_close_trees(struct tool_search *s) {
    for (size_t i = 0; i < TOOL_TREES_MAX; i++) {
        if (s->trees[i].fd >= 0)
            close(s->trees[i].fd);
        s->trees[i] = (struct tool_tree){.fd = -1};
    }
}

static const char *tool_search_tree(const struct tool_search *s, size_t at) {
    return at < TOOL_TREES_MAX ? s->tool->homes[s->home].trees[at] : NULL;
}

static void tool_search_ask(struct tool_search *s) {
    char program[TOOL_PATH_MAX];
    const char *tree = tool_search_tree(s, s->at);
    if (tree) {
        opener_directory(s->opener, &s->ask, s->uid, tree, false);
        return;
    }
    s->at = TOOL_TREES_MAX;
    snprintf(program, sizeof program, "%s/%s", tool_search_tree(s, 0), s->tool->name);
    opener_program(s->opener, &s->ask, s->uid, program);
}

static void tool_search_next_home(struct tool_search *s, const struct err *e) {
    struct err none;
    if (e && e->code != ERR_FILE_NOT_FOUND && s->refused.code == ERR_NONE) {
        s->refused = *e;
        (void)err_wrap(&s->refused, "%s", tool_search_tree(s, 0));
    }
    tool_search_close_trees(s);
    s->at = 0;
    if (++s->home < TOOL_HOMES_MAX && tool_search_tree(s, 0)) {
        tool_search_ask(s);
        return;
    }
    tool_not_found(s->tool, s->refused.code == ERR_NONE ? NULL : s->refused.text, &none);
    s->on_done(s, &none);
}

/* Keeps the opened directory. Refuses a path with a colon, because a colon separates the entries of
 * PATH. */
static bool tool_search_keep_tree(struct tool_search *s, const struct open_result *result) {
    struct tool_tree *t = &s->trees[s->at];
    if (!result->path[0] || !result->real[0] || strchr(result->path, ':') || *result->fd < 0)
        return false;
    snprintf(t->path, sizeof t->path, "%s", result->path);
    snprintf(t->real, sizeof t->real, "%s", result->real);
    t->is_foreign = result->is_foreign;
    t->fd = TAKE_FD(*result->fd);
    return true;
}

static bool tool_search_contains(const struct tool_search *s, const char *real) {
    for (size_t i = 0; i < TOOL_TREES_MAX; i++) {
        size_t n = strlen(s->trees[i].real);
        if (n > 0 && strncmp(real, s->trees[i].real, n) == 0 && real[n] == '/')
            return true;
    }
    return false;
}

static void on_opened(struct open_ask *a, const struct open_result *result) {
    struct tool_search *s = container_of(a, struct tool_search, ask);
    struct err e;
    bool is_program = s->at == TOOL_TREES_MAX;
    if (result->e &&
        (result->e->code == ERR_DRIVER_UNAVAILABLE || result->e->code == ERR_LIMIT_REACHED ||
         result->e->code == ERR_OUT_OF_MEMORY)) {
        s->on_done(s, result->e);
    } else if (is_program && !result->e && tool_search_contains(s, result->real)) {
        s->on_done(s, NULL);
    } else if (is_program && !result->e) {
        err_set(&e, ERR_HOST_PATH_REFUSED, "%s: its symlink leaves the mounted directories",
                s->tool->name);
        tool_search_next_home(s, &e);
    } else if (is_program || (s->at == 0 && (result->e || !tool_search_keep_tree(s, result)))) {
        tool_search_next_home(s, result->e);
    } else {
        if (s->at > 0 && !result->e)
            (void)tool_search_keep_tree(s, result); /* the second tree is optional */
        s->at++;
        tool_search_ask(s);
    }
}

void tool_search_begin(struct tool_search *s, struct opener *o, uint32_t uid, const struct tool *t,
                       void (*on_done)(struct tool_search *s, const struct err *e)) {
    *s = (struct tool_search){.opener = o, .tool = t, .uid = uid, .on_done = on_done};
    for (size_t i = 0; i < TOOL_TREES_MAX; i++)
        s->trees[i].fd = -1;
    open_ask_init(&s->ask, on_opened);
    tool_search_ask(s);
}

void tool_search_end(struct tool_search *s) {
    if (!s->opener)
        return;
    open_ask_cancel(&s->ask);
    tool_search_close_trees(s);
    s->opener = NULL;
}
