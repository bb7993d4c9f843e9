#include "core/imports/imports.h"

#include <stdio.h>
#include <unistd.h>

#include "base/programs.h"
#include "base/str.h"
#include "core/env.h"

int imports_uid(struct env *env, const char *owner, uint32_t *ret_uid, struct err *e) {
    const char prefix[] = "uid:";
    uint64_t uid;
    if (!env->opener)
        return err_set(e, ERR_HOST_PATH_REFUSED, "host paths cannot be imported: %s",
                       env->no_opener);
    if (strncmp(owner, prefix, sizeof prefix - 1) == 0 &&
        str_to_u64(str_of(owner + sizeof prefix - 1), 0, UINT32_MAX - 1, &uid) == 0)
        *ret_uid = (uint32_t)uid;
    else if (env->token_uid >= 0)
        *ret_uid = (uint32_t)env->token_uid;
    else
        return err_set(
            e, ERR_HOST_PATH_REFUSED,
            "token callers cannot import host paths, because the setting token_uid is empty");
    return 0;
}

/* --- the list --- */

static bool imports_add(struct imports *in, const struct import_item *model) {
    struct import_item *item = &in->items[in->n_items];
    *item = *model;
    item->source = strdup(model->source);
    item->target = model->target ? strdup(model->target) : NULL;
    in->n_items++;
    return item->source && (item->target || !model->target);
}

/* Returns the tool if bermd must search for it. Returns NULL for a tool that every sandbox sees in
 * /usr. */
static const struct tool *imports_missing_tool(const Berm__V1__Tool *t) {
    const struct tool *tool = tool_named(t->name);
    return tool && !tool_is_on_host(tool) ? tool : NULL;
}

/* Maps a directory below the caller's home to the same path below the home of the sandbox's
 * user. */
static bool imports_add_cache(struct imports *in, const Berm__V1__SandboxSpec *spec,
                              const char *name, size_t tool) {
    char source[TOOL_PATH_MAX], target[TOOL_PATH_MAX];
    bool is_root = spec->profile == BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT;
    snprintf(source, sizeof source, "~/%s", name);
    snprintf(target, sizeof target, "%s/%s", is_root ? "/root" : "/home/user", name);
    return imports_add(in, &(struct import_item){.kind = IMPORT_CACHE,
                                                 .source = source,
                                                 .target = target,
                                                 .index = (unsigned)tool,
                                                 .fd = -1});
}

static bool imports_add_caches(struct imports *in, const Berm__V1__SandboxSpec *spec) {
    bool ok = true;
    for (size_t i = 0; i < in->n_tools; i++) {
        const struct tool *t = spec->tools[i]->cache ? tool_named(spec->tools[i]->name) : NULL;
        for (size_t k = 0; t && ok && k < TOOL_CACHES_MAX && t->caches[k]; k++)
            ok = imports_add_cache(in, spec, t->caches[k], i);
    }
    return ok;
}

static bool imports_add_all(struct imports *in, const Berm__V1__SandboxSpec *spec,
                            size_t n_copies) {
    bool ok = true;
    in->items = calloc(spec->n_mounts + n_copies + in->n_tools * (TOOL_TREES_MAX + TOOL_CACHES_MAX),
                       sizeof *in->items);
    for (size_t i = 0; in->items && ok && i < spec->n_mounts; i++)
        ok = imports_add(in, &(struct import_item){.source = spec->mounts[i]->source,
                                                   .target = spec->mounts[i]->target,
                                                   .writable = spec->mounts[i]->writable,
                                                   .index = (unsigned)i,
                                                   .fd = -1});
    for (size_t i = 0; in->items && ok && i < n_copies; i++)
        ok = imports_add(in, &(struct import_item){.kind = IMPORT_COPY,
                                                   .source = spec->copies[i]->source,
                                                   .index = (unsigned)i,
                                                   .fd = -1});
    return in->items && ok && imports_add_caches(in, spec);
}

/* --- opening, one item at a time --- */

static void imports_fail(struct imports *in, const struct err *why, const char *list, size_t index,
                         const char *member) {
    struct err e = *why;
    snprintf(e.field, sizeof e.field, "spec.%s[%zu].%s", list, index, member);
    (void)err_wrap(&e, "%s", e.field);
    in->on_done(in, &e);
}

static void imports_open_next(struct imports *in);

static bool imports_has_target(const struct imports *in, const char *target) {
    for (size_t i = 0; i < in->n_items; i++)
        if (in->items[i].kind == IMPORT_TOOL && strcmp(in->items[i].target, target) == 0)
            return true;
    return false;
}

/* Adds the directories of the tool. Tools that share a directory share one mount. */
static bool imports_add_trees(struct imports *in) {
    bool ok = true;
    for (size_t i = 0; ok && i < TOOL_TREES_MAX; i++) {
        struct tool_tree *t = &in->search.trees[i];
        if (t->fd >= 0 && !imports_has_target(in, t->path))
            ok = imports_add(in, &(struct import_item){.kind = IMPORT_TOOL,
                                                       .source = t->path,
                                                       .target = t->path,
                                                       .is_foreign = t->is_foreign,
                                                       .is_bin = i == 0,
                                                       .index = (unsigned)in->tool,
                                                       .fd = TAKE_FD(t->fd)});
    }
    return ok;
}

static int imports_check_count(const struct imports *in, size_t more, struct err *e) {
    size_t n = more;
    for (size_t i = 0; i < in->n_items; i++)
        n += in->items[i].kind == IMPORT_MOUNT || in->items[i].fd >= 0;
    return n <= INSTANCE_MOUNTS_MAX
               ? 0
               : err_limit(e, ERR_INVALID_ARGUMENT, LIMIT_MOUNTS_COUNT, INSTANCE_MOUNTS_MAX,
                           "mounts: must be at most %d with those of the tools",
                           INSTANCE_MOUNTS_MAX);
}

static void on_searched(struct tool_search *s, const struct err *failed) {
    struct imports *in = container_of(s, struct imports, search);
    struct err e = failed ? *failed : (struct err){0};
    if (!failed && !imports_add_trees(in))
        err_set(&e, ERR_OUT_OF_MEMORY, "out of memory");
    else if (!failed)
        (void)imports_check_count(in, 0, &e);
    tool_search_end(s);
    if (e.code != ERR_NONE) {
        imports_fail(in, &e, "tools", in->tool, "name");
        return;
    }
    in->tool++;
    imports_open_next(in);
}

static void imports_open_next(struct imports *in) {
    struct opener *o = in->env->opener;
    const struct import_item *item = &in->items[in->at];
    bool is_listed = in->at < in->n_items && item->kind != IMPORT_TOOL;
    while (in->tool < in->n_tools && !in->tools[in->tool])
        in->tool++;
    if (is_listed && item->kind == IMPORT_COPY)
        opener_source(o, &in->ask, in->uid, item->source);
    else if (is_listed)
        opener_directory(o, &in->ask, in->uid, item->source, item->writable);
    else if (in->tool < in->n_tools)
        tool_search_begin(&in->search, o, in->uid, in->tools[in->tool], on_searched);
    else
        in->on_done(in, NULL);
}

/* A cache that does not exist starts empty in the sandbox. A cache that belongs to another user is
 * refused, because the sandbox's user would appear as its owner. */
static int imports_check_opened(const struct imports *in, const struct open_result *result,
                                struct err *e) {
    const struct import_item *item = &in->items[in->at];
    bool is_cache = item->kind == IMPORT_CACHE;
    if (is_cache && result->e && result->e->code == ERR_FILE_NOT_FOUND)
        return 0;
    if (result->e) {
        *e = *result->e;
        return is_cache ? err_wrap(e, "%s", item->source) : -(int)e->code;
    }
    if (item->kind != IMPORT_COPY && *result->fd < 0)
        return err_set(e, ERR_DRIVER_UNAVAILABLE, "berm-open replied without a descriptor");
    if (is_cache && result->is_foreign)
        return err_set(e, ERR_HOST_PATH_REFUSED, "%s does not belong to the caller", item->source);
    return is_cache ? imports_check_count(in, 1, e) : 0;
}

static void on_opened(struct open_ask *a, const struct open_result *result) {
    static const struct {
        const char *list, *member;
    } fields[] = {[IMPORT_MOUNT] = {"mounts", "source"},
                  [IMPORT_COPY] = {"copies", "source"},
                  [IMPORT_CACHE] = {"tools", "cache"}};
    struct imports *in = container_of(a, struct imports, ask);
    struct import_item *item = &in->items[in->at];
    struct err e;
    if (imports_check_opened(in, result, &e) < 0) {
        imports_fail(in, &e, fields[item->kind].list, item->index, fields[item->kind].member);
        return;
    }
    if (item->kind != IMPORT_COPY && !result->e)
        item->fd = TAKE_FD(*result->fd);
    item->is_foreign = result->is_foreign;
    in->at++;
    imports_open_next(in);
}

static int imports_wrap_tool(struct err *e, size_t index, const char *member) {
    snprintf(e->field, sizeof e->field, "spec.tools[%zu].%s", index, member);
    return err_wrap(e, "%s", e->field);
}

/* Checks that the owner may import host paths if a tool needs credentials, which are copies from
 * the caller's home. */
static int imports_check_tools(struct env *env, const char *owner,
                               const Berm__V1__SandboxSpec *spec, struct err *e) {
    uint32_t uid;
    for (size_t i = 0; i < spec->n_tools; i++)
        if (spec->tools[i]->credentials && imports_uid(env, owner, &uid, e) < 0)
            return imports_wrap_tool(e, i, "credentials");
    return 0;
}

/* Fills in->tools. Returns 1 if a tool needs a search or a cache, otherwise 0. UNSUPPORTED: a tool
 * needs a search, but has no directory to search or the owner may not import host paths.
 * HOST_PATH_REFUSED: the same for a cache. */
static int imports_list_tools(struct imports *in, const Berm__V1__SandboxSpec *spec,
                              const char *owner, struct err *e) {
    struct err why;
    bool is_any = false;
    for (size_t i = 0; i < MIN(spec->n_tools, (size_t)TOOLS_MAX); i++) {
        const struct tool *t = imports_missing_tool(spec->tools[i]);
        bool has_cache = spec->tools[i]->cache;
        bool may = (!t && !has_cache) || imports_uid(in->env, owner, &in->uid, &why) == 0;
        if (t && (!may || !t->homes[0].trees[0])) {
            tool_not_found(t, may ? NULL : why.text, e);
            return imports_wrap_tool(e, i, "name");
        }
        if (!may) {
            *e = why;
            return imports_wrap_tool(e, i, "cache");
        }
        in->tools[in->n_tools++] = t;
        is_any = is_any || t || has_cache;
    }
    return is_any ? 1 : 0;
}

/* Lists everything to open. Returns 1 if there is anything, otherwise 0. */
static int imports_list(struct imports *in, const char *owner, const Berm__V1__SandboxSpec *spec,
                        size_t n_copies, struct err *e) {
    size_t n = spec->n_mounts + n_copies;
    int any_tool = imports_list_tools(in, spec, owner, e);
    if (any_tool < 0 || (n == 0 && any_tool == 0))
        return any_tool;
    if (n > 0 && imports_uid(in->env, owner, &in->uid, e) < 0) {
        snprintf(e->field, sizeof e->field, "spec.%s[0].source",
                 spec->n_mounts > 0 ? "mounts" : "copies");
        return err_wrap(e, "%s", e->field);
    }
    return imports_add_all(in, spec, n_copies) ? 1 : err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
}

int imports_begin(struct imports *in, struct env *env, const char *owner,
                  const Berm__V1__SandboxSpec *spec, bool with_copies,
                  void (*on_done)(struct imports *in, const struct err *e), struct err *e) {
    if (with_copies && imports_check_tools(env, owner, spec, e) < 0)
        return -(int)e->code;
    *in = (struct imports){.env = env, .on_done = on_done};
    open_ask_init(&in->ask, on_opened);
    int n = imports_list(in, owner, spec, with_copies ? spec->n_copies : 0, e);
    if (n <= 0)
        imports_end(in);
    else
        imports_open_next(in);
    return n;
}

/* --- results --- */

size_t imports_mounts(const struct imports *in,
                      struct instance_mount ret_mounts[INSTANCE_MOUNTS_MAX]) {
    static const enum import_kind order[] = {IMPORT_TOOL, IMPORT_CACHE, IMPORT_MOUNT};
    size_t n = 0;
    for (size_t k = 0; k < COUNT_OF(order); k++)
        for (size_t i = 0; i < in->n_items && n < INSTANCE_MOUNTS_MAX; i++) {
            const struct import_item *m = &in->items[i];
            if (m->kind == order[k] && m->fd >= 0)
                ret_mounts[n++] = (struct instance_mount){.dir_fd = m->fd,
                                                          .target = m->target,
                                                          .writable = m->writable,
                                                          .is_public = m->is_foreign,
                                                          .is_layered = m->kind == IMPORT_CACHE};
        }
    return n;
}

char *imports_path(const struct imports *in) {
    size_t size = sizeof DEFAULT_PATH;
    bool is_any = false;
    for (size_t i = 0; i < in->n_items; i++)
        if (in->items[i].is_bin) {
            is_any = true;
            size += strlen(in->items[i].target) + 1;
        }
    char *path = is_any ? malloc(size) : NULL;
    size_t n = path ? (size_t)snprintf(path, size, "%s", DEFAULT_PATH) : 0;
    for (size_t i = 0; path && i < in->n_items; i++)
        if (in->items[i].is_bin)
            n += (size_t)snprintf(path + n, size - n, ":%s", in->items[i].target);
    return path;
}

size_t imports_mounts_max(const Berm__V1__SandboxSpec *spec) {
    size_t n = spec->n_mounts;
    for (size_t i = 0; i < spec->n_tools; i++)
        n += (imports_missing_tool(spec->tools[i]) ? TOOL_TREES_MAX : 0) +
             (spec->tools[i]->cache ? TOOL_CACHES_MAX : 0);
    return n;
}

void imports_end(struct imports *in) {
    if (!in->env)
        return;
    open_ask_cancel(&in->ask);
    tool_search_end(&in->search);
    for (size_t i = 0; i < in->n_items; i++) {
        free(in->items[i].source);
        free(in->items[i].target);
        if (in->items[i].fd >= 0)
            close(in->items[i].fd);
    }
    free(in->items);
    *in = (struct imports){0};
}
