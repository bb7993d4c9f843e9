#include "base/err.h"
#include "harness.h"

TEST(err_set_returns_the_number_and_fills_everything) {
    struct err e;
    CHECK_INT(err_set(&e, ERR_SANDBOX_NOT_FOUND, "no %s", "box"), -2);
    CHECK_INT(e.code, ERR_SANDBOX_NOT_FOUND);
    CHECK_STR(e.text, "no box");
    CHECK_STR(e.field, "");
    CHECK_INT(e.sys, 0);
}

TEST(err_field_names_the_field) {
    struct err e;
    CHECK_INT(err_field(&e, "spec.id", "too long"), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "spec.id");
}

TEST(err_sys_appends_the_system_error) {
    struct err e;
    err_sys(&e, ERR_INTERNAL, 2, "open %s", "x");
    CHECK_STR(e.text, "open x: No such file or directory");
    CHECK_INT(e.sys, 2);
}

TEST(err_wrap_keeps_the_code_and_nests_the_text) {
    struct err e;
    err_set(&e, ERR_GUEST_LOST, "eof");
    CHECK_INT(err_wrap(&e, "start in %s", "sb"), -ERR_GUEST_LOST);
    CHECK_STR(e.text, "start in sb: eof");
}

TEST(err_text_is_truncated_to_its_size) {
    struct err e;
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    err_set(&e, ERR_INTERNAL, "%s", long_text);
    CHECK_INT(strlen(e.text), sizeof e.text - 1);
    err_wrap(&e, "%s", long_text);
    CHECK_INT(strlen(e.text), sizeof e.text - 1);
}

TEST(err_text_stays_utf8_when_truncated) {
    struct err e;
    err_set(&e, ERR_INTERNAL, "\"%.3s\"", "\xc3\xa9\xc3\xa9");
    CHECK_STR(e.text, "\"\xc3\xa9?\"");
    err_set(&e, ERR_INTERNAL, "%s", "\xff\xfe ok \x80");
    CHECK_STR(e.text, "?? ok ?");
}

TEST(err_rows_are_complete) {
    static const enum err_code codes[] = {
#define ERR(name, number, grpc, http, retry, meaning) ERR_##name,
#include "base/errors.def"
#undef ERR
    };
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        const struct err_face *f = err_face(codes[i]);
        CHECK(f != NULL);
        CHECK_INT(f->number, codes[i]);
        CHECK(f->number >= 1 && f->number <= 999);
        CHECK(f->grpc != GRPC_OK && f->grpc <= GRPC_UNAUTHENTICATED);
        CHECK(f->http >= 400 && f->http < 600);
        CHECK(f->name[0] != '\0' && f->meaning[0] != '\0');
    }
    CHECK(err_face(ERR_NONE) == NULL);
    CHECK(err_face((enum err_code)998) == NULL);
}

TEST(err_names_are_those_of_the_protocols) {
    CHECK_STR(grpc_code_name(GRPC_OK), "OK");
    CHECK_STR(grpc_code_name(GRPC_UNAUTHENTICATED), "UNAUTHENTICATED");
    CHECK_STR(grpc_code_name((enum grpc_code)99), "UNKNOWN");
    CHECK_STR(err_retry_name(RETRY_CHECK), "check");
}
