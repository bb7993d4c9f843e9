#include "core/guest/guest_field.h"

#include <stdio.h>

#include "harness.h"

static struct arena nodes;
static struct err e;

static const struct json *parse(const char *text) {
    static const struct json_bounds bounds = {.depth = 8, .nodes = 1000, .members = 64};
    struct json *root;
    CHECK_INT(json_parse(&nodes, text, strlen(text), &bounds, &root), 0);
    return root;
}

static void setup(void) {
    CHECK_INT(arena_init(&nodes, 1024, 1 << 20), 0);
}

static void teardown(void) {
    arena_done(&nodes);
}

#define REST "\"size_bytes\":5,\"mode\":420,\"uid\":1,\"gid\":2,\"modified_s\":3,\"modified_ns\":4"

static int info(const char *members, struct guest_file_info *ret) {
    static char text[1024]; /* the info borrows from it */
    snprintf(text, sizeof text, "{%s}", members);
    return guest_field_info(parse(text), &nodes, ret, &e);
}

TEST(guest_field_reads_what_a_path_names) {
    struct guest_file_info got;
    setup();
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"user\":\"u\"," REST, &got), 0);
    CHECK(str_is(got.path.bytes, STR("/a")) && !got.path.is_raw && str_is(got.user, STR("u")));
    CHECK_INT(got.type, GUEST_FILE_REGULAR);
    CHECK(got.size_bytes == 5 && got.mode == 0644 && got.uid == 1 && got.gid == 2);
    CHECK(got.modified_unix_ns == 3000000004);
    CHECK_INT(info("\"path_b64\":\"L/8=\",\"type\":\"symlink\",\"target\":\"t\"," REST, &got), 0);
    CHECK(got.path.is_raw && str_is(got.path.bytes, STR("/\xff")));
    CHECK(got.size_bytes == 0); /* only regular files have a size */
    CHECK(str_is(got.target.bytes, STR("t")));
    teardown();
}

TEST(guest_field_refuses_invalid_file_infos) {
    static const char *const bad[] = {
        "\"type\":\"regular\"," REST,
        "\"path\":\"\",\"type\":\"regular\"," REST,
        "\"path\":\"/a\"," REST,
        "\"path\":\"/a\",\"type\":\"nonsense\"," REST,
        "\"path\":\"/a\",\"type\":1," REST,
        "\"path\":5,\"type\":\"regular\"," REST,
        "\"path\":\"/a\\u0000b\",\"type\":\"regular\"," REST,
        "\"path\":\"/a\",\"path_b64\":\"L2E=\",\"type\":\"regular\"," REST,
        "\"path_b64\":\"?\",\"type\":\"regular\"," REST,
        "\"path_b64\":7,\"type\":\"regular\"," REST,
        "\"path_b64\":\"\",\"type\":\"regular\"," REST,
        "\"path\":\"/a\",\"type\":\"regular\",\"size_bytes\":-1,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"size_bytes\":1.5,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"mode\":4096,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"uid\":4294967296,\"modified_s\":1",
        "\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":1,\"modified_ns\":1000000000",
        "\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":\"1\"",
        "\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":1,\"user\":[]",
        "\"path\":\"/a\",\"type\":\"regular\"",
    };
    struct guest_file_info got;
    setup();
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(info(bad[i], &got), -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_info(parse("7"), &nodes, &got, &e), -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_info(NULL, &nodes, &got, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}

TEST(guest_field_keeps_times_in_range) {
    struct guest_file_info got;
    setup();
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":9007199254740991", &got),
              0);
    CHECK(got.modified_unix_ns == INT64_MAX);
    CHECK_INT(info("\"path\":\"/a\",\"type\":\"regular\",\"modified_s\":-9007199254740991", &got),
              0);
    CHECK(got.modified_unix_ns == INT64_MIN);
    teardown();
}

TEST(guest_field_refuses_paths_that_are_too_long) {
    static char text[80000], path[20000];
    struct guest_path got;
    setup();
    memset(path, 'a', sizeof path - 1);
    path[16384] = '\0';
    snprintf(text, sizeof text, "{\"path\":\"%s\"}", path);
    CHECK_INT(guest_field_path(parse(text), "path", &nodes, &got, &e), 0);
    CHECK(got.bytes.n == 16384);
    path[16384] = 'a';
    path[16385] = '\0';
    snprintf(text, sizeof text, "{\"path\":\"%s\"}", path);
    CHECK_INT(guest_field_path(parse(text), "path", &nodes, &got, &e), -ERR_GUEST_PROTOCOL);
    memset(path, 'a', sizeof path - 1);
    snprintf(text, sizeof text, "{\"path_b64\":\"%s%s\"}", path, path);
    CHECK_INT(guest_field_path(parse(text), "path", &nodes, &got, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}

TEST(guest_field_reads_lists_up_to_their_bound) {
    size_t n;
    const struct str *texts;
    setup();
    CHECK_INT(guest_field_texts(parse("{\"l\":[\"a\",\"\"]}"), "l", 2, &nodes, &n, &texts, &e), 0);
    CHECK(n == 2 && str_is(texts[0], STR("a")) && texts[1].n == 0);
    CHECK_INT(guest_field_texts(parse("{}"), "l", 2, &nodes, &n, &texts, &e), 0);
    CHECK(n == 0);
    CHECK_INT(guest_field_texts(parse("{\"l\":[1]}"), "l", 2, &nodes, &n, &texts, &e),
              -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_texts(parse("{\"l\":[\"\",\"\",\"\"]}"), "l", 2, &nodes, &n, &texts, &e),
              -ERR_GUEST_PROTOCOL);
    CHECK(guest_field_list(parse("{\"l\":[]}"), "l", 0, &e) != NULL);
    CHECK(guest_field_list(parse("{\"l\":{}}"), "l", 9, &e) == NULL);
    CHECK(guest_field_list(parse("{}"), "l", 9, &e) == NULL);
    teardown();
}

TEST(guest_field_reads_ids_and_bytes) {
    uint64_t id = 0;
    struct str bytes;
    setup();
    CHECK_INT(guest_field_id(parse("{\"id\":9}"), "id", &id, &e), 0);
    CHECK(id == 9);
    static const char *const bad[] = {"{}", "{\"id\":0}", "{\"id\":-1}", "{\"id\":\"9\"}",
                                      "{\"id\":9.5}"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(guest_field_id(parse(bad[i]), "id", &id, &e), -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_bytes(parse("{\"b\":\"AAEC\"}"), "b", 3, &nodes, &bytes, &e), 0);
    CHECK(bytes.n == 3 && memcmp(bytes.p, "\0\1\2", 3) == 0);
    CHECK_INT(guest_field_bytes(parse("{\"b\":\"AAEC\"}"), "b", 2, &nodes, &bytes, &e),
              -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_bytes(parse("{\"b\":\"A\"}"), "b", 3, &nodes, &bytes, &e),
              -ERR_GUEST_PROTOCOL);
    CHECK_INT(guest_field_bytes(parse("{}"), "b", 3, &nodes, &bytes, &e), -ERR_GUEST_PROTOCOL);
    teardown();
}

/* Missing memory loses the message, but the guest is not blamed. */
TEST(guest_field_reports_missing_memory) {
    struct arena small;
    struct str bytes;
    char text[300];
    setup();
    CHECK_INT(arena_init(&small, 64, 64), 0);
    snprintf(text, sizeof text, "{\"t\":\"%0248d\"}", 0);
    CHECK_INT(guest_field_bytes(parse(text), "t", 4096, &small, &bytes, &e), -ERR_GUEST_LOST);
    arena_done(&small);
    teardown();
}

TEST(guest_field_writes_raw_paths_as_base64) {
    struct buf text;
    struct json_out o;
    buf_init(&text, 4096);
    json_begin(&o, &text);
    json_open(&o, '{');
    guest_field_put_path(&o, "path", &(struct guest_path){.bytes = STR("a\"b")});
    guest_field_put_path(&o, "new_path",
                         &(struct guest_path){.bytes = STR("\xff\xfe"), .is_raw = true});
    json_close(&o, '}');
    CHECK_INT(json_end(&o), 0);
    struct str want = STR("{\"path\":\"a\\\"b\",\"new_path_b64\":\"//4=\"}");
    CHECK(str_is((struct str){(const char *)buf_data(&text), buf_len(&text)}, want));
    buf_done(&text);
}
