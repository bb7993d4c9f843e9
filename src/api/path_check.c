#include "api/path_check.h"

#include <stdio.h>

#include "api/checks.h"

static int over(struct err *e, const char *field, enum limit_id limit, const char *what) {
    long long most = limit_table[limit].value;
    err_limit(e, ERR_INVALID_ARGUMENT, limit, most, "%s: %s of more than %lld bytes", field, what,
              most);
    return err_at(e, "%s", field);
}

/* Each name, and that `..` never climb above where the path starts. */
static int check_names(const char *field, struct str path, struct err *e) {
    struct str rest = path, name;
    size_t depth = 0;
    while (str_split(&rest, '/', &name)) {
        if (name.n > (size_t)limit_table[LIMIT_PATH_NAME].value)
            return over(e, field, LIMIT_PATH_NAME, "a name");
        if (name.n == 0 || str_is(name, STR(".")))
            continue;
        if (!str_is(name, STR("..")))
            depth++;
        else if (depth-- == 0)
            return err_field(e, field, "%s: it climbs above its start", field);
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
        return err_field(e, raw_field, "%s: give it or %s, not both", raw_field, field);
    if (path.n == 0 && raw.len == 0)
        return err_field(e, field, "%s: a path is needed", field);
    bool is_raw = raw.len > 0;
    const char *given = is_raw ? raw_field : field;
    if (is_raw)
        path = (struct str){(const char *)raw.data, raw.len};
    if (path.n > (size_t)limit_table[LIMIT_PATH_LENGTH].value)
        return over(e, given, LIMIT_PATH_LENGTH, "a path");
    if (memchr(path.p, '\0', path.n))
        return err_field(e, given, "%s: it holds a NUL", given);
    if (check_names(given, path, e) < 0)
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
