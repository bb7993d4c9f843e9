#include "guest/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/params.h"
#include "guest/path.h"

#define SEARCH_PATH_MAX 8192
#define WORKSPACE_MAX 4095

void settings_done(struct settings *s) {
    for (char **it = s->env; it && *it; it++)
        free(*it);
    free(s->env);
    free(s->workspace);
    free(s->user);
    free(s->path);
    *s = (struct settings){0};
}

/* Every user of the sandbox may write to the workspace, because a guest of profile `user` cannot
 * change the owner of the workspace. If the workspace cannot be created, the first exec that starts
 * there fails. */
void settings_make_workspace(struct settings *s) {
    char *path = s->workspace;
    if (!s->needs_workspace || !path)
        return;
    s->needs_workspace = false;
    if (access(path, F_OK) == 0) /* the usual case, and cheaper than a mkdir that fails */
        return;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)!mkdir(path, 0755);
        *slash = '/';
    }
    if (mkdir(path, 0755) == 0)
        (void)!chmod(path, 0777);
}

/* An absent string stays NULL. Returns false when out of memory. */
static bool settings_copy(struct str s, char **ret) {
    *ret = s.p ? strndup(s.p, s.n) : NULL;
    return !s.p || *ret;
}

static bool settings_copy_env(const struct json *list, char ***ret) {
    size_t n = 0;
    if (!list)
        return true;
    char **env = calloc(list->items.count + 1, sizeof *env);
    *ret = env;
    if (!env)
        return false;
    JSON_FOR_EACH(it, list) {
        struct str key = json_get(it, "key")->text, value = json_get(it, "value")->text;
        if (asprintf(&env[n++], "%.*s=%.*s", (int)key.n, key.p, (int)value.n, value.p) < 0)
            return false;
    }
    return true;
}

static int settings_check_workspace(struct str workspace, struct arena *a, struct err *e) {
    char *checked;
    if (!workspace.p)
        return 0;
    if (workspace.p[0] != '/' || path_absolute(workspace, "workspace", "", a, &checked, e) < 0)
        return err_field(e, "workspace", "must be an absolute path");
    return 0;
}

int settings_read(struct settings *s, const struct json *params, struct arena *a, struct err *e) {
    struct str id, hostname = {0}, workspace = {0}, user = {0}, path = {0};
    const struct json *env;
    size_t env_bytes = 0;
    *s = (struct settings){.is_configured = true, .needs_workspace = true, .lease_ms = -1};
    if (params_id(params, "sandbox_id", &id, e) < 0 ||
        params_int(params, "lease_ms", 0, PARAMS_OFFSET_MAX, &s->lease_ms, e) < 0 ||
        params_str(params, "hostname", sizeof s->hostname - 1, &hostname, e) < 0 ||
        params_str(params, "workspace", WORKSPACE_MAX, &workspace, e) < 0 ||
        params_str(params, "user", 64, &user, e) < 0 ||
        params_str(params, "path", SEARCH_PATH_MAX, &path, e) < 0 ||
        params_node(params, "env", JSON_ARRAY, &env, e) < 0 ||
        (env && params_env(env, SETTINGS_ENV_COUNT, &env_bytes, e) < 0) ||
        settings_check_workspace(workspace, a, e) < 0)
        return -(int)e->code;
    if (env)
        env_bytes -= 2 * env->items.count; /* the bound counts names and values, not `=` and NUL */
    if (env_bytes > SETTINGS_ENV_BYTES)
        return err_field(e, "env", "must be at most %d bytes, got %zu", SETTINGS_ENV_BYTES,
                         env_bytes);
    memcpy(s->hostname, hostname.p ? hostname.p : "", hostname.n);
    if (settings_copy(workspace, &s->workspace) && settings_copy(user, &s->user) &&
        settings_copy(path, &s->path) && settings_copy_env(env, &s->env))
        return 0;
    settings_done(s);
    return err_set(e, ERR_OUT_OF_MEMORY, "configure: out of memory");
}
