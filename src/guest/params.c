#include "guest/params.h"

int params_missing(const char *name, struct err *e) {
    return err_field(e, name, "is missing");
}

int params_node(const struct json *params, const char *name, enum json_type type,
                const struct json **ret, struct err *e) {
    static const char *const types[] = {"null",   "true or false", "a whole number", "a number",
                                        "a text", "a list",        "an object"};
    const struct json *node = json_get(params, name);
    if (node && node->type != type)
        return err_field(e, name, "is not %s", types[type]);
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
        return err_field(e, name, "holds a NUL");
    if (node->text.n > max)
        return err_field(e, name, "is longer than %zu bytes", max);
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
        return err_field(e, name, "is not between %lld and %lld", (long long)min, (long long)max);
    *ret = node->integer;
    return 0;
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
    return err_field(e, name, "is unknown: %.*s", (int)text.n, text.p);
}

static bool is_id(struct str s) {
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
    if (!is_id(text))
        return err_field(e, name, "is not an id");
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
        return err_set(e, ERR_OUT_OF_MEMORY, "no memory for %s", name);
    ssize_t n = base64_decode(text.p, text.n, raw);
    if (n < 0)
        return err_field(e, name, "is not base64");
    if ((size_t)n > max_raw)
        return err_field(e, name, "is longer than %zu bytes", max_raw);
    *ret = (struct str){(const char *)raw, (size_t)n};
    return 0;
}

static bool is_name(struct str s) {
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
        return err_field(e, "env", "has more than %zu entries", max);
    JSON_FOR_EACH(it, list) {
        const struct json *key = json_get(it, "key"), *value = json_get(it, "value");
        if (!key || key->type != JSON_STRING || !is_name(key->text))
            return err_field(e, "env", "holds a name that is not one");
        if (!value || value->type != JSON_STRING || value->has_nul)
            return err_field(e, "env", "%.*s has no value without NUL", (int)key->text.n,
                             key->text.p);
        for (const struct json *other = list->items.first; other != it; other = other->next)
            if (str_is(json_get(other, "key")->text, key->text))
                return err_field(e, "env", "%.*s is given twice", (int)key->text.n, key->text.p);
        *bytes += key->text.n + value->text.n + 2;
    }
    return 0;
}
