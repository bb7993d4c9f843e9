#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

const struct err_face *err_face(enum err_code code) {
    switch (code) { /* two rows with the same number do not compile */
#define ERR(n, num, g, h, r, m)                                                   \
    case num: {                                                                   \
        static const struct err_face face = {#n, num, GRPC_##g, h, RETRY_##r, m}; \
        return &face;                                                             \
    }
#include "base/errors.def"
#undef ERR
    case ERR_NONE:
        break;
    }
    return NULL;
}

const char *err_retry_name(enum err_retry retry) {
    static const char *const names[] = {"never", "later", "check"};
    return names[retry];
}

const char *grpc_code_name(enum grpc_code code) {
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    return code < COUNT_OF(names) ? names[code] : "UNKNOWN";
}

/* Replaces bytes that are not UTF-8 with question marks, because a text may quote bytes of a caller
 * and may end inside a character. */
static void err_keep_utf8(char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n && !str_is_utf8(text, n);) {
        size_t good = n - i;
        while (good > 0 && !str_is_utf8(text + i, good))
            good--;
        i += good;
        if (i < n)
            text[i++] = '?';
    }
}

static int err_fill(struct err *e, enum err_code code, int sys, const char *field, const char *fmt,
                    va_list args) PRINTF(5, 0);
static int err_fill(struct err *e, enum err_code code, int sys, const char *field, const char *fmt,
                    va_list args) {
    assert(code != ERR_NONE);
    e->code = code;
    e->sys = sys;
    e->limit = e->subject = NULL;
    for (size_t i = 0; i < ERR_NUMBERS; i++)
        e->numbers[i].key = NULL;
    snprintf(e->field, sizeof e->field, "%s", field);
    int n = vsnprintf(e->text, sizeof e->text, fmt, args);
    if (sys != 0 && n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", strerror(sys));
    err_keep_utf8(e->text);
    return -(int)code;
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = err_fill(e, code, 0, "", fmt, args);
    va_end(args);
    return r;
}

int err_field(struct err *e, const char *field, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = err_fill(e, ERR_INVALID_ARGUMENT, 0, field, fmt, args);
    va_end(args);
    return r;
}

int err_sys(struct err *e, enum err_code code, int sys, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = err_fill(e, code, sys, "", fmt, args);
    va_end(args);
    return r;
}

int err_limit(struct err *e, enum err_code code, enum limit_id limit, int64_t value,
              const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int r = err_fill(e, code, 0, "", fmt, args);
    va_end(args);
    e->limit = limit_table[limit].name;
    e->limit_value = value;
    return r;
}

int err_about(struct err *e, const char *key, const char *id) {
    e->subject = key;
    snprintf(e->subject_id, sizeof e->subject_id, "%s", id);
    return -(int)e->code;
}

int err_number(struct err *e, const char *key, int64_t value) {
    size_t i = 0;
    while (i < ERR_NUMBERS && e->numbers[i].key)
        i++;
    assert(i < ERR_NUMBERS);
    e->numbers[i] = (struct err_number){key, value};
    return -(int)e->code;
}

int err_wrap(struct err *e, const char *fmt, ...) {
    char inner[sizeof e->text];
    memcpy(inner, e->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(e->text, sizeof e->text, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", inner);
    err_keep_utf8(e->text);
    return -(int)e->code;
}
