#include "api/file/file_answer.h"

#include <stdio.h>

#include "api/file/file_tree.h"
#include "harness.h"

static struct arena arena, nodes;
static struct err e;

static const struct json *parse(const char *text) {
    static const struct json_bounds bounds = {.depth = 8, .nodes = 1000, .members = 64};
    struct json *root;
    CHECK_INT(json_parse(&nodes, text, strlen(text), &bounds, &root), 0);
    return root;
}

static void setup(void) {
    CHECK_INT(arena_init(&arena, 1024, 1 << 20), 0);
    CHECK_INT(arena_init(&nodes, 1024, 1 << 20), 0);
}

static void teardown(void) {
    arena_done(&arena);
    arena_done(&nodes);
}

#define REST "\"size_bytes\":5,\"mode\":420,\"uid\":1,\"gid\":2,\"modified_s\":3,\"modified_ns\":4"

static int info(const char *members, Berm__V1__FileInfo **ret) {
    char text[1024];
    snprintf(text, sizeof text, "{\"info\":{%s}}", members);
    return answer_info(parse(text), "info", &arena, ret, &e);
}

TEST(file_answer_reads_what_a_path_names) {
    Berm__V1__FileInfo *got;
    setup();
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"user\":\"u\"," REST, &got), 0);
    CHECK_STR(got->path, "/a");
    CHECK_INT(got->type, BERM__V1__FILE_TYPE__FILE_TYPE_REGULAR);
    CHECK(got->size_bytes == 5 && got->mode == 0644 && got->uid == 1 && got->gid == 2);
    CHECK(got->modified_unix_ns == 3000000004);
    CHECK_INT(info("\"path_b64\":\"L/8=\",\"type\":\"symlink\",\"target\":\"t\"," REST, &got), 0);
    CHECK(got->raw_path.len == 2 && got->raw_path.data[1] == 0xff && got->path[0] == '\0');
    CHECK(got->size_bytes == 0); /* of regular files alone */
    CHECK_STR(got->symlink_target, "t");
    teardown();
}

TEST(file_answer_believes_nothing) {
    static const char *const bad[] = {
        "\"type\":\"regular\"," REST,
        "\"path\":\"/a\"," REST,
        "\"path\":\"/a\",\"type\":\"nonsense\"," REST,
        "\"path\":5,\"type\":\"regular\"," REST,
        "\"path\":\"/a\\u0000b\",\"type\":\"regular\"," REST,
        "\"path\":\"/a\",\"path_b64\":\"L2E=\",\"type\":\"regular\"," REST,
        "\"path_b64\":\"?\",\"type\":\"regular\"," REST,
        "\"path\":\"/a\",\"type\":\"regular\",\"size_bytes\":-1,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"size_bytes\":1.5,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"mode\":4096,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"uid\":4294967296,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":1,\"modified_ns\":1000000000",
        "\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":\"1\"",
        "\"path\":\"/a\",\"type\":\"regular\"",
    };
    Berm__V1__FileInfo *got;
    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(info(bad[i], &got), -ERR_GUEST_PROTOCOL);
    CHECK_INT(answer_info(parse("{}"), "info", &arena, &got, &e), -ERR_GUEST_PROTOCOL);
    CHECK_INT(answer_info(NULL, "info", &arena, &got, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}

TEST(file_answer_keeps_times_in_range) {
    Berm__V1__FileInfo *got;
    setup();
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":9007199254740991", &got),
              0);
    CHECK(got->modified_unix_ns == INT64_MAX);
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":-9007199254740991", &got),
              0);
    CHECK(got->modified_unix_ns == INT64_MIN);
    teardown();
}

TEST(file_answer_reads_lists) {
    size_t n;
    char **texts;
    Berm__V1__FileInfo **infos;
    Berm__V1__TruncatedReason why;
    setup();
    CHECK_INT(answer_texts(parse("{\"l\":[\"a\",\"\"]}"), "l", &arena, &n, &texts, &e), 0);
    CHECK(n == 2 && strcmp(texts[0], "a") == 0 && texts[1][0] == '\0');
    CHECK_INT(answer_texts(parse("{}"), "l", &arena, &n, &texts, &e), 0);
    CHECK(n == 0);
    CHECK_INT(answer_texts(parse("{\"l\":[1]}"), "l", &arena, &n, &texts, &e), -ERR_GUEST_PROTOCOL);
    CHECK_INT(answer_infos(parse("{\"l\":[]}"), "l", &arena, &n, &infos, &e), 0);
    CHECK_INT(answer_infos(parse("{}"), "l", &arena, &n, &infos, &e), -ERR_GUEST_PROTOCOL);
    CHECK_INT(answer_truncated(parse("{\"truncated\":\"size\"}"), &why, &e), 0);
    CHECK_INT(why, BERM__V1__TRUNCATED_REASON__TRUNCATED_REASON_SIZE);
    CHECK_INT(answer_truncated(parse("{\"truncated\":\"x\"}"), &why, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}

TEST(file_answer_is_bounded_by_its_arena) {
    struct arena small;
    char *text;
    setup();
    CHECK_INT(arena_init(&small, 64, 64), 0);
    char long_text[300];
    snprintf(long_text, sizeof long_text, "{\"t\":\"%0250d\"}", 0);
    CHECK_INT(answer_text(parse(long_text), "t", &small, &text, &e), -ERR_LIMIT_REACHED);
    arena_done(&small);
    teardown();
}

TEST(file_tree_reads_how_a_tree_ended) {
    struct tree_outcome got;
    setup();
    CHECK_INT(tree_outcome_read(parse("{\"files\":1,\"directories\":2,\"total_bytes\":3,"
                                      "\"skipped_special\":4,\"skipped_unreadable\":5}"),
                                &got, &e),
              0);
    CHECK(got.failure.code == ERR_NONE && got.files == 1 && got.skipped_unreadable == 5);
    CHECK_INT(
        tree_outcome_read(parse("{\"error\":{\"code\":94,\"message\":\"member x\"}}"), &got, &e),
        0);
    CHECK_INT(got.failure.code, ERR_TREE_INVALID);
    CHECK_STR(got.failure.text, "member x");
    CHECK_INT(tree_outcome_read(parse("{\"error\":{\"code\":0,\"message\":\"x\"}}"), &got, &e),
              -ERR_GUEST_PROTOCOL);
    CHECK_INT(tree_outcome_read(parse("{\"files\":-1}"), &got, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}
