#include "api/path_check.h"

#include <stdio.h>

#include "api/checks.h"

static int path_check_over(struct err *e, const char *field, enum limit_id limit,
                           const char *what) {
    long long most = limit_table[limit].value;
    err_limit(e, ERR_INVALID_ARGUMENT, limit, most, "%s: %s must have at most %lld bytes", field,
              what, most);
    return err_at(e, "%s", field);
}

/* Checks each name, and that `..` never goes above the start of the path. */
static int path_check_names(const char *field, struct str path, struct err *e) {
    struct str rest = path, name;
    size_t depth = 0;
    while (str_split(&rest, '/', &name)) {
        if (name.n > (size_t)limit_table[LIMIT_PATH_NAME].value)
            return path_check_over(e, field, LIMIT_PATH_NAME, "each name");
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        if (!str_is(name, STR("..")))
            depth++;
        else if (depth-- == 0)
            return err_field(e, field, "%s: must not go above its start with ..", field);
    }
    return 0;
}

int path_check(const char *prefix, const char *name, const char *text, ProtobufCBinaryData raw,
               struct path_arg *ret, struct err *e) {
    char field[48], raw_field[48];
    snprintf(field, sizeof field, "%s%s", prefix, name);
    snprintf(raw_field, sizeof raw_field, "%sraw_%s", prefix, name);
    struct str path = str_of(text);
    if (path.n > 0 && raw.len > 0)
        return err_field(e, raw_field, "%s: must not be given together with %s", raw_field, field);
    if (path.n == 0 && raw.len == 0)
        return err_field(e, field, "%s: must not be empty", field);
    bool is_raw = raw.len > 0;
    const char *given = is_raw ? raw_field : field;
    if (is_raw)
        path = (struct str){(const char *)raw.data, raw.len};
    if (path.n > (size_t)limit_table[LIMIT_PATH_LENGTH].value)
        return path_check_over(e, given, LIMIT_PATH_LENGTH, "the path");
    if (memchr(path.p, '\0', path.n))
        return err_field(e, given, "%s: must not contain a NUL byte", given);
    if (path_check_names(given, path, e) < 0)
        return -(int)e->code;
    *ret = (struct path_arg){.path = path, .is_raw = is_raw};
    return 0;
}

int path_check_or_workspace(const char *name, const char *text, ProtobufCBinaryData raw,
                            struct path_arg *ret, struct err *e) {
    if (text[0] != '\0' || raw.len > 0)
        return path_check("", name, text, raw, ret, e);
    *ret = (struct path_arg){.path = STR("."), .is_default = true};
    return 0;
}
