#include "clients/c/error.h"

#include <stdio.h>

#include "harness.h"
#include "wire/grpc.h"

/* What a daemon would send for an error of ours, as bytes of a google.rpc.Status. */
static size_t status_of(const struct err *e, uint8_t *out, size_t cap) {
    struct arena a;
    struct grpc_detail details[GRPC_ERROR_DETAILS];
    CHECK_INT(arena_init(&a, 4096, 1 << 16), 0);
    size_t n = grpc_error_details(e, &a, details);
    struct str text = grpc_encode_status(err_face(e->code)->grpc, str_of(e->text), details, n, &a);
    CHECK(text.n * 3 / 4 + 3 <= cap);
    ssize_t len = base64_decode(text.p, text.n, out);
    arena_done(&a);
    return (size_t)len;
}

TEST(every_row_of_the_list_comes_through) { /* covers: RETRY-5 */
    static const int numbers[] = {
#define ERR(name, number, grpc, http, retry, meaning) number,
#include "base/errors.def"
#undef ERR
    };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uint8_t bytes[1024];
        struct err e;
        struct berm_error got;
        const struct err_face *face = err_face((enum err_code)numbers[i]);
        err_set(&e, (enum err_code)numbers[i], "because");
        size_t n = status_of(&e, bytes, sizeof bytes);
        CHECK_INT(error_of_status(&got, (int)face->grpc, "because", bytes, n), -numbers[i]);
        CHECK_INT(got.code, numbers[i]);
        CHECK_STR(got.name, face->name);
        CHECK_STR(berm_code_name(got.code), face->name);
        CHECK_STR(err_retry_name((enum err_retry)got.retry), err_retry_name(face->retry));
        CHECK_STR(got.message, "because");
    }
}

TEST(field_limit_and_object_are_read) {
    uint8_t bytes[1024];
    struct err e;
    struct berm_error got;
    err_field(&e, "spec.labels[3].value", "too long");
    size_t n = status_of(&e, bytes, sizeof bytes);
    error_of_status(&got, GRPC_INVALID_ARGUMENT, "too long", bytes, n);
    CHECK_STR(got.field, "spec.labels[3].value");
    err_limit(&e, ERR_MESSAGE_TOO_LARGE, LIMIT_MESSAGE_INBOUND, 42, "x");
    err_about(&e, "sandbox_id", "sb-77");
    n = status_of(&e, bytes, sizeof bytes);
    error_of_status(&got, GRPC_RESOURCE_EXHAUSTED, "x", bytes, n);
    CHECK_STR(berm_error_get(&got, "limit"), "message.inbound");
    CHECK_STR(berm_error_get(&got, "limit_value"), "42");
    CHECK_STR(berm_error_get(&got, "sandbox_id"), "sb-77");
    CHECK(!berm_error_get(&got, "none"));
    CHECK_STR(got.field, "");
}

/* Details cut anywhere, or with any one byte wrong, are read as far as they go and never beyond. */
TEST(broken_details_do_no_harm) {
    uint8_t bytes[1024];
    struct err e;
    struct berm_error got;
    err_field(&e, "spec", "bad");
    size_t n = status_of(&e, bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        uint8_t *cut = malloc(i + 1); /* its own block: a read beyond it shows */
        memcpy(cut, bytes, i);
        CHECK(error_of_status(&got, GRPC_INVALID_ARGUMENT, "bad", cut, i) < 0);
        free(cut);
    }
    for (size_t i = 0; i < n * 256; i++) {
        uint8_t *wrong = malloc(n);
        memcpy(wrong, bytes, n);
        wrong[i / 256] = (uint8_t)i;
        error_of_status(&got, GRPC_INVALID_ARGUMENT, "bad", wrong, n);
        free(wrong);
    }
    CHECK_STR(got.message, "bad");
}

TEST(a_status_without_details_has_the_row_of_its_name) {
    struct berm_error got;
    CHECK_INT(error_of_status(&got, GRPC_UNIMPLEMENTED, "", NULL, 0), -BERM_UNIMPLEMENTED);
    CHECK_STR(got.message, "the daemon answered UNIMPLEMENTED");
    CHECK_INT(error_of_status(&got, GRPC_UNAVAILABLE, "no upstream", NULL, 0), -BERM_UNKNOWN);
    CHECK_INT(got.retry, BERM_RETRY_CHECK);
    CHECK_INT(error_of_status(&got, 99, "", NULL, 0), -BERM_UNKNOWN);
    CHECK_INT(error_of_status(NULL, GRPC_UNIMPLEMENTED, "", NULL, 0), -BERM_UNIMPLEMENTED);
}

TEST(the_codes_of_the_header_are_the_rows) {
#define ERR(name, number, grpc, http, retry, meaning) CHECK_INT(BERM_##name, number);
#include "base/errors.def"
#undef ERR
    CHECK_STR(berm_code_name(BERM_UNREACHABLE), "UNREACHABLE");
    CHECK_STR(berm_code_name((enum berm_code)998), "UNKNOWN");
}
