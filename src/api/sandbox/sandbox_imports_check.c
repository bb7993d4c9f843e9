#include "api/sandbox/sandbox_imports_check.h"

#include <stdio.h>

#include "api/checks.h"
#include "base/str.h"
#include "core/driver.h"
#include "core/imports/tools.h"

#define EXCLUDES_MAX 256
#define EXCLUDE_BYTES 4096
#define EXCLUDES_BYTES 32768 /* total of all patterns; open_pack has the same limit */

/* Writes the path of a field, such as "spec.mounts[3].target". */
static const char *imports_field(char out[96], const char *list, size_t i, const char *member) {
    snprintf(out, 96, "spec.%s[%zu].%s", list, i, member);
    return out;
}

static int imports_check_count(const char *field, size_t n, enum limit_id limit, struct err *e) {
    int64_t max = limit_table[limit].value;
    if (n <= (size_t)max)
        return 0;
    err_limit(e, ERR_INVALID_ARGUMENT, limit, max, "%s: must be at most %lld", field,
              (long long)max);
    return err_at(e, "%s", field);
}

static int imports_check_source(const char *list, size_t i, const char *source, struct err *e) {
    char field[96];
    imports_field(field, list, i, "source");
    int r = check_clean_path(field, source, e);
    if (r == 0 && source[1] == '\0') {
        err_set(e, ERR_HOST_PATH_REFUSED, "%s: must not be /", field);
        return err_at(e, "%s", field);
    }
    return r;
}

/* Nothing may be mounted over these paths, because the sandbox itself uses them. */
static bool imports_is_reserved(const char *target) {
    static const char *const reserved[] = {"/proc", "/dev", "/sys"};
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        size_t n = strlen(reserved[i]);
        if (strncmp(target, reserved[i], n) == 0 && (target[n] == '/' || target[n] == '\0'))
            return true;
    }
    return target[1] == '\0';
}

static int imports_check_target(const char *list, size_t i, const char *target, struct err *e) {
    char field[96];
    imports_field(field, list, i, "target");
    int r = check_clean_path(field, target, e);
    if (r == 0 && imports_is_reserved(target))
        r = err_field(e, field, "%s: must not be /, /proc, /dev or /sys, nor below the last three",
                      field);
    return r;
}

static const char *imports_target(const Berm__V1__SandboxSpec *s, size_t i) {
    return i < s->n_mounts ? s->mounts[i]->target : s->copies[i - s->n_mounts]->target;
}

static int imports_check_once(const Berm__V1__SandboxSpec *s, size_t i, struct err *e) {
    char field[96];
    bool is_mount = i < s->n_mounts;
    for (size_t k = 0; k < i; k++)
        if (strcmp(imports_target(s, k), imports_target(s, i)) == 0) {
            imports_field(field, is_mount ? "mounts" : "copies", is_mount ? i : i - s->n_mounts,
                          "target");
            return err_field(e, field, "%s: \"%.80s\" must be given once", field,
                             imports_target(s, i));
        }
    return 0;
}

static int imports_check_mount(const Berm__V1__SandboxSpec *s, size_t i, struct err *e) {
    char field[96];
    const Berm__V1__Mount *m = s->mounts[i];
    int r = imports_check_source("mounts", i, m->source, e);
    if (r == 0)
        r = imports_check_target("mounts", i, m->target, e);
    if (r == 0 && strlen(m->target) >= INSTANCE_TARGET_MAX) {
        imports_field(field, "mounts", i, "target");
        r = err_field(e, field, "%s: must have at most %d bytes", field, INSTANCE_TARGET_MAX - 1);
    }
    return r == 0 ? imports_check_once(s, i, e) : r;
}

static int imports_check_excludes(size_t i, const Berm__V1__Copy *c, struct err *e) {
    char field[96];
    size_t sum = 0;
    imports_field(field, "copies", i, "excludes");
    if (c->n_excludes > EXCLUDES_MAX)
        return err_field(e, field, "%s: must have at most %d patterns", field, EXCLUDES_MAX);
    for (size_t k = 0; k < c->n_excludes; k++) {
        size_t n = strlen(c->excludes[k]);
        sum += n + 1;
        if (n == 0 || n > EXCLUDE_BYTES) {
            err_field(e, field, "%s[%zu]: must have 1 to %d bytes", field, k, EXCLUDE_BYTES);
            return err_at(e, "%s[%zu]", field, k);
        }
    }
    if (sum > EXCLUDES_BYTES)
        return err_field(e, field, "%s: must have at most %d bytes together", field,
                         EXCLUDES_BYTES);
    return 0;
}

static int imports_check_copy(const Berm__V1__SandboxSpec *s, size_t i, struct err *e) {
    const Berm__V1__Copy *c = s->copies[i];
    int r = imports_check_source("copies", i, c->source, e);
    if (r == 0)
        r = imports_check_target("copies", i, c->target, e);
    if (r == 0)
        r = imports_check_excludes(i, c, e);
    return r == 0 ? imports_check_once(s, s->n_mounts + i, e) : r;
}

static int imports_check_tool(const Berm__V1__SandboxSpec *s, size_t i, struct err *e) {
    char field[96];
    const struct tool *t = tool_named(s->tools[i]->name);
    imports_field(field, "tools", i, "name");
    if (!t)
        return err_unsupported(e, field, "no tool has the name \"%.80s\"", s->tools[i]->name);
    for (size_t k = 0; k < i; k++)
        if (strcmp(s->tools[k]->name, t->name) == 0)
            return err_field(e, field, "%s: %s must be given once", field, t->name);
    if (t->need == TOOL_ROOT && s->profile != BERM__V1__SANDBOX_PROFILE__SANDBOX_PROFILE_ROOT)
        return err_field(e, field, "%s: %s must be used with the profile ROOT", field, t->name);
    if (s->tools[i]->credentials && !t->files[0]) {
        imports_field(field, "tools", i, "credentials");
        return err_field(e, field, "%s: must be unset, because %s has none", field, t->name);
    }
    if (s->tools[i]->cache && !t->caches[0]) {
        imports_field(field, "tools", i, "cache");
        return err_field(e, field, "%s: must be unset, because %s has none", field, t->name);
    }
    return 0;
}

int imports_check(const Berm__V1__SandboxSpec *s, struct err *e) {
    int r = imports_check_count("spec.mounts", s->n_mounts, LIMIT_MOUNTS_COUNT, e);
    if (r == 0)
        r = imports_check_count("spec.copies", s->n_copies, LIMIT_MOUNTS_COUNT, e);
    if (r == 0)
        r = imports_check_count("spec.tools", s->n_tools, LIMIT_TOOLS_COUNT, e);
    for (size_t i = 0; r == 0 && i < s->n_mounts; i++)
        r = imports_check_mount(s, i, e);
    for (size_t i = 0; r == 0 && i < s->n_copies; i++)
        r = imports_check_copy(s, i, e);
    for (size_t i = 0; r == 0 && i < s->n_tools; i++)
        r = imports_check_tool(s, i, e);
    if (r == 0 && s->n_devices > 0)
        r = err_unsupported(e, "spec.devices", "no driver has the device \"%.80s\"",
                            s->devices[0]->kind);
    return r;
}
