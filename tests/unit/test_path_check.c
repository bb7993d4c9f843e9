#include "api/path_check.h"

#include "harness.h"

static struct err e;
static struct path_arg got;

static int run(const char *text, const void *raw, size_t n_raw) {
    e = (struct err){0};
    got = (struct path_arg){0};
    return path_check("", "path", text, (ProtobufCBinaryData){n_raw, (uint8_t *)raw}, &got, &e);
}

static void taken(const char *text) {
    CHECK_INT(run(text, NULL, 0), 0);
    CHECK(str_is(got.path, str_of(text)) && !got.is_raw);
}

static void refused(const char *text, const void *raw, size_t n_raw, const char *field) {
    CHECK_INT(run(text, raw, n_raw), -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, field);
    CHECK(strncmp(e.text, field, strlen(field)) == 0); /* the text names the field too */
}

TEST(path_check_accepts_paths_of_any_bytes) { /* covers: PATH-1, PATH-4 */
    taken("a");
    taken("/");
    taken("/a//b/./c/");
    taken("a/../b");
    taken("/x/y/../../z");
    taken("...");
    taken("..a/b..");
    CHECK_INT(run("", "\xff/a", 3), 0);
    CHECK(got.is_raw && got.path.n == 3);
}

TEST(path_check_requires_exactly_one_of_two_fields) {
    refused("", NULL, 0, "path");
    refused("a", "a", 1, "raw_path");
    CHECK_INT(path_check("header.", "path", "", (ProtobufCBinaryData){0}, &got, &e),
              -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "header.path");
    CHECK_INT(
        path_check("header.", "new_path", "x", (ProtobufCBinaryData){1, (uint8_t *)"x"}, &got, &e),
        -ERR_INVALID_ARGUMENT);
    CHECK_STR(e.field, "header.raw_new_path");
}

TEST(path_check_refuses_paths_above_the_start) { /* covers: PATH-3 */
    refused("..", NULL, 0, "path");
    refused("/..", NULL, 0, "path");
    refused("a/../..", NULL, 0, "path");
    refused("a/../../b/c/d", NULL, 0, "path");
    refused("./..", NULL, 0, "path");
    refused("a//../..", NULL, 0, "path");
    refused("", "../\xff", 4, "raw_path");
}

TEST(path_check_bounds_lengths) { /* covers: PATH-2 */
    static char text[5000];
    memset(text, 'n', 255);
    taken(text);
    text[255] = 'n';
    refused(text, NULL, 0, "path");
    CHECK_STR(e.limit, "path.name");
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = i % 2 ? '/' : 'a';
    text[4095] = '\0';
    taken(text);
    text[4095] = 'a';
    text[4096] = '\0';
    refused(text, NULL, 0, "path");
    CHECK_STR(e.limit, "path.length");
    CHECK_INT(e.limit_value, 4095);
    refused("", "a\0b", 3, "raw_path");
}

TEST(path_check_defaults_to_the_workspace) {
    CHECK_INT(path_check_or_workspace("path", "", (ProtobufCBinaryData){0}, &got, &e), 0);
    CHECK(got.is_default && str_is(got.path, STR(".")));
    CHECK_INT(path_check_or_workspace("path", "..", (ProtobufCBinaryData){0}, &got, &e),
              -ERR_INVALID_ARGUMENT);
    CHECK_INT(path_check_or_workspace("path", "a", (ProtobufCBinaryData){0}, &got, &e), 0);
    CHECK(!got.is_default);
}
