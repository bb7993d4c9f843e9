#include "guest/params.h"

#include <stdio.h>

int params_missing(const char *name, struct err *e) {
    return err_field(e, name, "must be present");
}

int params_node(const struct json *params, const char *name, enum json_type type,
                const struct json **ret, struct err *e) {
    static const char *const types[] = {"null",     "a boolean", "an integer", "a number",
                                        "a string", "an array",  "an object"};
    const struct json *node = json_get(params, name);
    if (node && node->type != type)
        return err_field(e, name, "must be %s, got %s", types[type], types[node->type]);
    *ret = node;
    return 0;
}

int params_str(const struct json *params, const char *name, size_t max, struct str *ret,
               struct err *e) {
    const struct json *node = NULL;
    int r = params_node(params, name, JSON_STRING, &node, e);
    if (r < 0 || !node)
        return r;
    if (node->has_nul)
        return err_field(e, name, "must not contain NUL");
    if (node->text.n > max)
        return err_field(e, name, "must be at most %zu bytes, got %zu", max, node->text.n);
    *ret = node->text;
    return 0;
}

int params_int(const struct json *params, const char *name, int64_t min, int64_t max, int64_t *ret,
               struct err *e) {
    const struct json *node = NULL;
    int r = params_node(params, name, JSON_INT, &node, e);
    if (r < 0 || !node)
        return r;
    if (node->integer < min || node->integer > max)
        return err_field(e, name, "must be between %lld and %lld, got %lld", (long long)min,
                         (long long)max, (long long)node->integer);
    *ret = node->integer;
    return 0;
}

int params_need_int(const struct json *params, const char *name, int64_t min, int64_t max,
                    int64_t *ret, struct err *e) {
    return json_get(params, name) ? params_int(params, name, min, max, ret, e)
                                  : params_missing(name, e);
}

int params_bool(const struct json *params, const char *name, bool *ret, struct err *e) {
    const struct json *node = NULL;
    int r = params_node(params, name, JSON_BOOL, &node, e);
    if (r == 0 && node)
        *ret = node->boolean;
    return r;
}

int params_enum(const struct json *params, const char *name, const char *const *names,
                size_t n_names, int *ret, struct err *e) {
    struct str text = {0};
    int r = params_str(params, name, 64, &text, e);
    if (r < 0 || !text.p)
        return r;
    for (size_t i = 0; i < n_names; i++) {
        if (str_is(text, str_of(names[i]))) {
            *ret = (int)i;
            return 0;
        }
    }
    char known[128];
    size_t n = 0;
    for (size_t i = 0; i < n_names && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i > 0 ? ", " : "", names[i]);
    return err_field(e, name, "must be one of %s, got %.*s", known, (int)text.n, text.p);
}

static bool params_is_id(struct str s) {
    if (s.n < 1 || s.n > 48 || s.p[0] == '-' || s.p[s.n - 1] == '-')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

int params_id(const struct json *params, const char *name, struct str *ret, struct err *e) {
    struct str text = {0};
    int r = params_str(params, name, 4096, &text, e);
    if (r < 0)
        return r;
    if (!text.p)
        return params_missing(name, e);
    if (!params_is_id(text))
        return err_field(e, name, "must be an id: 1 to 48 of a-z, 0-9 and -, without - at an end");
    *ret = text;
    return 0;
}

int params_base64(const struct json *params, const char *name, struct arena *a, size_t max_raw,
                  struct str *ret, struct err *e) {
    struct str text = {0};
    *ret = (struct str){0};
    int r = params_str(params, name, (max_raw + 2) / 3 * 4, &text, e);
    if (r < 0 || !text.p)
        return r;
    uint8_t *raw = arena_alloc(a, text.n * 3 / 4 + 4);
    if (!raw)
        return err_set(e, ERR_OUT_OF_MEMORY, "decode %s: out of memory", name);
    ssize_t n = base64_decode(text.p, text.n, raw);
    if (n < 0)
        return err_field(e, name, "must be base64");
    if ((size_t)n > max_raw)
        return err_field(e, name, "must be at most %zu bytes, got %zd", max_raw, n);
    *ret = (struct str){(const char *)raw, (size_t)n};
    return 0;
}

static bool params_is_variable(struct str s) {
    if (s.n == 0 || s.n > 256 || (s.p[0] >= '0' && s.p[0] <= '9'))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

int params_env(const struct json *list, size_t max, size_t *bytes, struct err *e) {
    if (list->items.count > max)
        return err_field(e, "env", "must have at most %zu entries, got %zu", max,
                         list->items.count);
    JSON_FOR_EACH(it, list) {
        const struct json *key = json_get(it, "key"), *value = json_get(it, "value");
        if (!key || key->type != JSON_STRING || !params_is_variable(key->text))
            return err_field(
                e, "env", "keys must be names of letters, digits and _, not starting with a digit");
        if (!value || value->type != JSON_STRING || value->has_nul)
            return err_field(e, "env", "the value of %.*s must be a string without NUL",
                             (int)key->text.n, key->text.p);
        for (const struct json *other = list->items.first; other != it; other = other->next)
            if (str_is(json_get(other, "key")->text, key->text))
                return err_field(e, "env", "%.*s must occur once", (int)key->text.n, key->text.p);
        *bytes += key->text.n + value->text.n + 2;
    }
    return 0;
}
