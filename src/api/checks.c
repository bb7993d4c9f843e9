#include "api/checks.h"

#include <stdio.h>

#define LABEL_KEY_CHARS 63
#define LABEL_VALUE_BYTES 1024
#define OWN_LABELS "berm/"

int err_at(struct err *e, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->field, sizeof e->field, fmt, args);
    va_end(args);
    return -(int)e->code;
}

int err_unsupported(struct err *e, const char *field, const char *fmt, ...) {
    char what[sizeof e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    err_set(e, ERR_UNSUPPORTED, "%s: %s", field, what);
    return err_at(e, "%s", field);
}

/* Fails because the field is larger than the limit. The error's metadata names the limit. */
static int check_too_large(struct err *e, const char *field, enum limit_id limit, int64_t value) {
    err_limit(e, ERR_INVALID_ARGUMENT, limit, value, "%s: must be at most %lld %s", field,
              (long long)value, limit_unit_name(limit_table[limit].unit));
    return err_at(e, "%s", field);
}

int check_id(const char *field, const char *id, struct err *e) {
    size_t n = strlen(id);
    size_t max = (size_t)limit_table[LIMIT_ID_LENGTH].value;
    if (n == 0)
        return err_field(e, field, "%s: must not be empty", field);
    if (n > max)
        return check_too_large(e, field, LIMIT_ID_LENGTH, (int64_t)max);
    if (strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
        return err_field(e, field, "%s: must have only a-z, 0-9 and -", field);
    if (id[0] == '-' || id[n - 1] == '-')
        return err_field(e, field, "%s: must neither begin nor end with -", field);
    return 0;
}

int check_new_id(const char *field, const char *id, struct err *e) {
    static const struct str generated[] = {{"sb-", 3}, {"ex-", 3}, {"sn-", 3}};
    if (id[0] == '\0')
        return 0;
    int r = check_id(field, id, e);
    for (size_t i = 0; i < COUNT_OF(generated) && r == 0; i++)
        if (str_starts(str_of(id), generated[i]))
            r = err_field(e, field,
                          "%s: must not begin with %s, which is reserved for generated ids", field,
                          generated[i].p);
    return r;
}

int check_wait(int64_t wait_ms, struct err *e) {
    int64_t max = limit_table[LIMIT_WAIT_MAX].value;
    if (wait_ms < 0)
        return err_field(e, "wait_ms", "wait_ms: must be at least 0");
    return wait_ms > max ? check_too_large(e, "wait_ms", LIMIT_WAIT_MAX, max) : 0;
}

/* --- lists of names and values --- */

static int check_by_key(const void *a, const void *b) {
    const Berm__V1__KeyValue *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

/* Refuses duplicate keys. Sorts the list, because comparing all pairs of a hostile list would take
 * quadratic time. */
static int check_once(const char *field, size_t n, Berm__V1__KeyValue *const *list, struct err *e) {
    if (n < 2)
        return 0;
    AUTO_FREE Berm__V1__KeyValue **sorted = malloc(n * sizeof *sorted);
    if (!sorted)
        return err_set(e, ERR_OUT_OF_MEMORY, "out of memory");
    memcpy(sorted, list, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, check_by_key);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            return err_field(e, field, "%s: \"%.80s\" must be given once", field, sorted[i]->key);
    return 0;
}

static int64_t check_bytes_of(size_t n, Berm__V1__KeyValue *const *list) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += strlen(list[i]->key) + strlen(list[i]->value);
    return (int64_t)sum;
}

static int check_label(const char *field, size_t i, const Berm__V1__KeyValue *l, bool to_keep,
                       struct err *e) {
    size_t n = strlen(l->key);
    if (n == 0 || n > LABEL_KEY_CHARS ||
        strspn(l->key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") != n) {
        err_field(e, field, "%s[%zu].key: must be 1 to %d characters of A-Z a-z 0-9 . _ - /", field,
                  i, LABEL_KEY_CHARS);
        return err_at(e, "%s[%zu].key", field, i);
    }
    if (to_keep && str_starts(str_of(l->key), STR(OWN_LABELS))) {
        err_field(e, field, "%s[%zu].key: must not begin with " OWN_LABELS ", which is reserved",
                  field, i);
        return err_at(e, "%s[%zu].key", field, i);
    }
    if (strlen(l->value) > LABEL_VALUE_BYTES) {
        err_field(e, field, "%s[%zu].value: must have at most %d bytes", field, i,
                  LABEL_VALUE_BYTES);
        return err_at(e, "%s[%zu].value", field, i);
    }
    return 0;
}

static int check_label_list(const char *field, size_t n, Berm__V1__KeyValue *const *labels,
                            int64_t max_count, bool to_keep, struct err *e) {
    int64_t max_bytes = limit_table[LIMIT_LABELS_SIZE].value;
    if (n > (size_t)max_count)
        return check_too_large(e, field, LIMIT_LABELS_COUNT, max_count);
    for (size_t i = 0; i < n; i++) {
        int r = check_label(field, i, labels[i], to_keep, e);
        if (r < 0)
            return r;
    }
    if (check_bytes_of(n, labels) > max_bytes)
        return check_too_large(e, field, LIMIT_LABELS_SIZE, max_bytes);
    return check_once(field, n, labels, e);
}

int check_labels(const char *field, size_t n, Berm__V1__KeyValue *const *labels, int64_t max_count,
                 struct err *e) {
    return check_label_list(field, n, labels, max_count, true, e);
}

int check_selector(size_t n, Berm__V1__KeyValue *const *labels, struct err *e) {
    return check_label_list("label_selector", n, labels, limit_table[LIMIT_LABELS_COUNT].value,
                            false, e);
}

bool labels_match(size_t n, Berm__V1__KeyValue *const *labels, size_t n_selector,
                  Berm__V1__KeyValue *const *selector) {
    for (size_t i = 0; i < n_selector; i++) {
        bool found = false;
        for (size_t k = 0; k < n && !found; k++)
            found = strcmp(labels[k]->key, selector[i]->key) == 0 &&
                    strcmp(labels[k]->value, selector[i]->value) == 0;
        if (!found)
            return false;
    }
    return true;
}

static bool check_is_env_name(const char *s) {
    size_t n = strlen(s);
    return n > 0 && !(s[0] >= '0' && s[0] <= '9') &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

int check_env(const char *field, size_t n, Berm__V1__KeyValue *const *env, enum limit_id size_limit,
              struct err *e) {
    int64_t max_count = limit_table[LIMIT_EXEC_ENV_COUNT].value;
    int64_t max_bytes = limit_table[size_limit].value;
    if (n > (size_t)max_count)
        return check_too_large(e, field, LIMIT_EXEC_ENV_COUNT, max_count);
    for (size_t i = 0; i < n; i++)
        if (!check_is_env_name(env[i]->key)) {
            err_field(e, field,
                      "%s[%zu].key: must have only A-Z a-z 0-9 _ and not begin with a digit", field,
                      i);
            return err_at(e, "%s[%zu].key", field, i);
        }
    if (check_bytes_of(n, env) > max_bytes)
        return check_too_large(e, field, size_limit, max_bytes);
    return check_once(field, n, env, e);
}

int check_clean_path(const char *field, const char *path, struct err *e) {
    struct str rest = str_of(path);
    struct str part;
    if (rest.n > (size_t)limit_table[LIMIT_PATH_LENGTH].value)
        return check_too_large(e, field, LIMIT_PATH_LENGTH, limit_table[LIMIT_PATH_LENGTH].value);
    if (rest.n == 0 || rest.p[0] != '/')
        return err_field(e, field, "%s: must be an absolute path", field);
    if (rest.n == 1)
        return 0;
    rest = (struct str){rest.p + 1, rest.n - 1};
    if (rest.p[rest.n - 1] == '/')
        return err_field(e, field, "%s: must not end with /", field);
    while (str_split(&rest, '/', &part)) {
        if (part.n == 0 || str_is(part, STR(".")) || str_is(part, STR("..")))
            return err_field(e, field, "%s: must not contain \"//\", \".\" or \"..\"", field);
        if (part.n > (size_t)limit_table[LIMIT_PATH_NAME].value)
            return check_too_large(e, field, LIMIT_PATH_NAME, limit_table[LIMIT_PATH_NAME].value);
    }
    return 0;
}
