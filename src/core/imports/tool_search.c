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
                   "there is no %s for this caller%s%s; looked in /usr/local/bin, /usr/bin%s",
                   t->name, why ? ": " : "", why ? why : "", searched);
}

static void close_trees(struct tool_search *s) {
    for (size_t i = 0; i < TOOL_TREES_MAX; i++) {
        if (s->trees[i].fd >= 0)
            close(s->trees[i].fd);
        s->trees[i] = (struct tool_tree){.fd = -1};
    }
}

static const char *tree_at(const struct tool_search *s, size_t at) {
    return at < TOOL_TREES_MAX ? s->tool->homes[s->home].trees[at] : NULL;
}

static void ask(struct tool_search *s) {
    char program[TOOL_PATH_MAX];
    const char *tree = tree_at(s, s->at);
    if (tree) {
        opener_directory(s->opener, &s->ask, s->uid, tree, false);
        return;
    }
    s->at = TOOL_TREES_MAX;
    snprintf(program, sizeof program, "%s/%s", tree_at(s, 0), s->tool->name);
    opener_program(s->opener, &s->ask, s->uid, program);
}

static void try_next_home(struct tool_search *s, const struct err *e) {
    struct err none;
    if (e && e->code != ERR_FILE_NOT_FOUND && s->refused.code == ERR_NONE) {
        s->refused = *e;
        (void)err_wrap(&s->refused, "%s", tree_at(s, 0));
    }
    close_trees(s);
    s->at = 0;
    if (++s->home < TOOL_HOMES_MAX && tree_at(s, 0)) {
        ask(s);
        return;
    }
    tool_not_found(s->tool, s->refused.code == ERR_NONE ? NULL : s->refused.text, &none);
    s->on_done(s, &none);
}

/* A colon would be two entries of PATH. */
static bool keep_tree(struct tool_search *s, const struct open_result *result) {
    struct tool_tree *t = &s->trees[s->at];
    if (!result->path[0] || !result->real[0] || strchr(result->path, ':') || *result->fd < 0)
        return false;
    snprintf(t->path, sizeof t->path, "%s", result->path);
    snprintf(t->real, sizeof t->real, "%s", result->real);
    t->is_foreign = result->is_foreign;
    t->fd = TAKE_FD(*result->fd);
    return true;
}

static bool is_in_a_tree(const struct tool_search *s, const char *real) {
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
    } else if (is_program && !result->e && is_in_a_tree(s, result->real)) {
        s->on_done(s, NULL);
    } else if (is_program && !result->e) {
        err_set(&e, ERR_HOST_PATH_REFUSED, "%s leads out of what is shown", s->tool->name);
        try_next_home(s, &e);
    } else if (is_program || (s->at == 0 && (result->e || !keep_tree(s, result)))) {
        try_next_home(s, result->e);
    } else {
        if (s->at > 0 && !result->e)
            (void)keep_tree(s, result); /* it may do without: the program's own path tells */
        s->at++;
        ask(s);
    }
}

void tool_search_begin(struct tool_search *s, struct opener *o, uint32_t uid, const struct tool *t,
                       void (*on_done)(struct tool_search *s, const struct err *e)) {
    *s = (struct tool_search){.opener = o, .tool = t, .uid = uid, .on_done = on_done};
    for (size_t i = 0; i < TOOL_TREES_MAX; i++)
        s->trees[i].fd = -1;
    open_ask_init(&s->ask, on_opened);
    ask(s);
}

void tool_search_end(struct tool_search *s) {
    if (!s->opener)
        return;
    open_ask_cancel(&s->ask);
    close_trees(s);
    s->opener = NULL;
}
